//! `overdue apply --wait`: looks again and again until what drains by itself has drained, and deletes it.

use std::{
    collections::BTreeSet,
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::{
    super::output::{print, report},
    Failure, Ground, carry_out,
};
use crate::{
    broker::apply,
    plan::{
        Plan,
        waiting::{Next, Progress, Waiting},
    },
};

/// How often it looks; the broker's counts are older than that.
const LOOK_EVERY: Duration = Duration::from_secs(2);
/// How often it says how far it is where nobody looks at a bar: a pipeline takes silence for a hang.
const TELL_EVERY: Duration = Duration::from_secs(30);

pub(super) async fn wait(ground: &Ground, within: Option<Duration>) -> Result<(), Failure> {
    // What was discarded is gone by now.
    let none = BTreeSet::new();
    let began = Instant::now();
    let mut waiting = Waiting::new(within, ground.management.statistics_interval());
    let mut teller = Teller::new();
    loop {
        let (plan, _) = apply::plan(&ground.management, &ground.topology, &none).await?;
        match waiting.next(&plan, began.elapsed()) {
            Next::Done => {
                teller.end();
                return left(&plan);
            }
            Next::GiveUp(gave_up) => {
                teller.end();
                return Err(Failure::failed(gave_up.to_string()));
            }
            Next::CarryOut => {
                teller
                    .aside(async {
                        let turn = ground.turn().await?;
                        let (plan, _) =
                            apply::plan(&ground.management, &ground.topology, &none).await?;
                        carry_out(&ground.management, &plan).await?;
                        turn.end().await;
                        Ok::<(), Failure>(())
                    })
                    .await?;
            }
            Next::Look(progress) => {
                teller.show(&progress);
                tokio::time::sleep(LOOK_EVERY).await;
            }
        }
    }
}

/// What does not end by itself stays, and is said once more: the plan is far up the screen by now.
fn left(plan: &Plan) -> Result<(), Failure> {
    plan.draining.iter().try_for_each(|queue| print(format!("stays: {queue}")))
}

/// A bar for a person, lines for a log.
struct Teller {
    bar: Option<ProgressBar>,
    told: Option<Instant>,
}

impl Teller {
    fn new() -> Self {
        let style =
            ProgressStyle::with_template("{elapsed} {wide_bar} {pos}/{len} messages out\n{msg}");
        let bar = style.ok().filter(|_| std::io::stderr().is_terminal());
        Self { bar: bar.map(|style| ProgressBar::new(0).with_style(style)), told: None }
    }

    fn show(&mut self, progress: &Progress) {
        if let Some(bar) = &self.bar {
            bar.set_length(progress.most);
            bar.set_position(progress.drained);
            bar.set_message(progress.to_string());
        } else if self.told.is_none_or(|told| told.elapsed() >= TELL_EVERY) {
            report(format!("waiting: {progress}"));
            self.told = Some(Instant::now());
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
