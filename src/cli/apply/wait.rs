//! `overdue apply --wait`: looks again and again until what drains by itself has drained, and deletes it.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{
    super::{
        exit::Failure,
        output::{print, report},
    },
    make::make,
};
use crate::{
    broker::TopologyChange,
    plan::{
        Plan,
        drain_wait::{DrainWait, Next, Progress},
    },
    text::one_line,
};

/// How often it looks; the broker's counts are older than that.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often it says how far it is where nobody looks at a bar: a pipeline takes silence for a hang.
const REPORT_EVERY: Duration = Duration::from_secs(30);

pub(super) async fn wait(
    change: &TopologyChange<'_>,
    within: Option<Duration>,
) -> Result<(), Failure> {
    let began = Instant::now();
    let mut waiting = DrainWait::new(within, change.management.statistics_interval());
    let mut progress_report = ProgressReport::new();
    let mut done: Option<Plan> = None;
    loop {
        let (plan, _) = change.plan().await?;
        match waiting.next(&plan, began.elapsed()) {
            Next::Done => {
                progress_report.end();
                return left(&plan);
            }
            Next::GiveUp(gave_up) => {
                progress_report.end();
                return Err(Failure::failed(gave_up.to_string()));
            }
            Next::CarryOut => {
                let left = within.map(|within| within.saturating_sub(began.elapsed()));
                progress_report.aside(carry_out(change, left)).await?;
                // What could not be done is not tried again at once.
                if done.replace(plan.clone()).as_ref() == Some(&plan) {
                    tokio::time::sleep(LOOK_EVERY).await;
                }
            }
            Next::Look(progress) => {
                progress_report.show(&progress);
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
}

/// Carries the plan out, for so long at the most: stopped after any step, it leaves a topology that works.
async fn carry_out(change: &TopologyChange<'_>, left: Option<Duration>) -> Result<(), Failure> {
    let made = make(change, |plan, _| Ok(plan));
    match left {
        None => made.await,
        Some(left) => tokio::time::timeout(left, made).await.unwrap_or(Ok(())),
    }
}

/// What does not end by itself stays, and is said once more: the plan is far up the screen by now.
fn left(plan: &Plan) -> Result<(), Failure> {
    plan.draining.iter().try_for_each(|queue| print(format!("stays: {queue}")))
}

/// A bar for a person, lines for a log.
struct ProgressReport {
    bar: Option<ProgressBar>,
    reported: Option<Instant>,
}

impl ProgressReport {
    fn new() -> Self {
        let style =
            ProgressStyle::with_template("{elapsed} {wide_bar} {pos}/{len} messages out\n{msg}");
        let bar = style.ok().filter(|_| std::io::stderr().is_terminal());
        Self { bar: bar.map(|style| ProgressBar::new(0).with_style(style)), reported: None }
    }

    fn show(&mut self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_length(progress.most);
            bar.set_position(progress.drained);
            bar.set_message(one_line(progress));
        } else if self.reported.is_none_or(|at| at.elapsed() >= REPORT_EVERY) {
            report(format!("waiting: {progress}"));
            self.reported = Some(Instant::now());
        }
    }

    /// Without the bar in between.
    async fn aside<T>(&self, work: impl Future<Output = T>) -> T {
        if let Some(bar) = &self.bar {
            bar.set_draw_target(indicatif::ProgressDrawTarget::hidden());
        }
        let done = work.await;
        if let Some(bar) = &self.bar {
            bar.set_draw_target(indicatif::ProgressDrawTarget::stderr());
        }
        done
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
