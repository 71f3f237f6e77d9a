//! `overdue apply`: show the plan, ask, carry it out, and wait until what is retired has drained.

use std::{
    fmt, fs,
    io::IsTerminal,
    path::PathBuf,
    time::{Duration, Instant},
};

use clap::Args;
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

use super::{
    exit::Failure,
    output::{Confirm, Output, print, print_json, report},
    plan::Discard,
    setup,
};
use crate::{
    administration::{ChangeEvent, Goal, TopologyChange, apply::StepResult},
    config::Settings,
    oncall::actions::{NewAction, Via, record_where_possible},
    plan::{
        Draining, Plan, RetiredExchange,
        drain_wait::{DrainWait, Next, Progress},
        saved::{BrokerIdentity, PlanFileError, SavedPlan},
    },
    text::one_line,
    topology::{Topology, level::Ttl},
};

/// How often it says how far it is if nobody looks at a bar: a pipeline takes silence for a hang.
const REPORT_EVERY: Duration = Duration::from_secs(30);

/// A wait of an hour looks less often than one of seconds, and ends at most a hundredth later than it could.
const LOOKS: u32 = 100;

/// Bring the topology to the broker, again and again without effect; shows the plan first, and asks
#[derive(Debug, Args)]
pub(super) struct Apply {
    /// A plan saved by `overdue plan --save`: carried out if it is still what is to be done, or refused
    #[arg(value_name = "PLAN")]
    saved: Option<PathBuf>,
    #[command(flatten)]
    discard: Discard,
    #[command(flatten)]
    confirm: Confirm,
    /// Wait until retired queues have drained, and delete them
    #[arg(long)]
    wait: bool,
    /// With --wait: give up after this time, e.g. 45m
    #[arg(long, value_name = "DURATION", requires = "wait")]
    within: Option<Ttl>,
    #[command(flatten)]
    output: Output,
}

/// A plan from a file, and the broker it is to be carried out on.
struct Saved {
    plan: SavedPlan,
    broker: BrokerIdentity,
}

/// What was done.
#[derive(Default, Serialize)]
pub(super) struct Applied {
    version: u32,
    /// Steps that were carried out.
    pub(super) applied: usize,
    /// Steps that were left for a later apply, and why.
    pub(super) left: Vec<String>,
    /// Queues that are to be deleted, and that the broker has not counted.
    #[serde(skip)]
    uncounted: Vec<String>,
    /// Retired queues that are not empty yet.
    draining: Vec<Draining>,
    /// Exchanges that the topology no longer has, and that are still needed.
    retired_exchanges: Vec<RetiredExchange>,
}

impl Apply {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, management) = setup::broker(settings)?;
        let goal = Goal::Applied { discard: self.discard.names() };
        let change = TopologyChange { management: &management, topology: &topology, goal };
        let (plan, _) = change.plan().await?;
        let identity = management.identity().await?;
        let heading = identity.heading(&topology);
        let saved = self.saved(identity)?;
        let plan = chosen(saved.as_ref(), plan, &topology)?;
        self.output.preview(format!("{heading}\n{plan}"))?;
        self.discard.note(&plan);
        let question = format!("apply this at {}?", management.address());
        self.agree(&plan, &question)?;
        let mut applied = Applied { version: 1, ..Applied::default() };
        applied.draining.clone_from(&plan.draining);
        applied.retired_exchanges.clone_from(&plan.retired_exchanges);
        let ended = self.carry_out(&change, plan, saved.as_ref(), &question, &mut applied).await;
        record(settings, "apply", &change, &applied).await;
        // Programs read what was done also if it ended half-way.
        if self.output.is_json() {
            print_json(&applied)?;
        }
        ended
    }

    /// Makes the change that was shown, and waits for what drains if that is wanted.
    async fn carry_out(
        &self,
        change: &TopologyChange<'_>,
        plan: Plan,
        saved: Option<&Saved>,
        question: &str,
        applied: &mut Applied,
    ) -> Result<(), Failure> {
        let TopologyChange { management, topology, .. } = *change;
        if !plan.steps.is_empty() {
            let shown = plan;
            let decide = |plan| {
                let plan = chosen(saved, plan, topology)?;
                if plan.changes().ne(shown.changes()) {
                    let text =
                        format!("the broker has changed meanwhile, the plan is now:\n{plan}");
                    self.output.preview(text)?;
                    self.agree(&plan, question)?;
                }
                Ok(plan)
            };
            self.make(change, decide, applied).await?;
        }
        if self.wait {
            // What was discarded is gone by now.
            self.wait(&TopologyChange::new(management, topology), applied).await?;
        }
        Ok(())
    }

    fn saved(&self, broker: BrokerIdentity) -> Result<Option<Saved>, Failure> {
        let Some(path) = &self.saved else { return Ok(None) };
        let unreadable = |reason: String| {
            Failure::configuration(format!(
                "cannot read the saved plan {}: {reason}",
                path.display()
            ))
        };
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let plan = SavedPlan::parse(&text).map_err(|error| match error {
            PlanFileError::Version(stale) => stale.into(),
            PlanFileError::NotAPlan(_) => unreadable(error.to_string()),
        })?;
        Ok(Some(Saved { plan, broker }))
    }

    /// A plan without anything to do is not asked about, unless what is retired is to be deleted.
    fn agree(&self, plan: &Plan, question: &str) -> Result<(), Failure> {
        if !plan.refusals.is_empty() {
            return Err(Failure::failed("the plan is refused, nothing was changed: see above"));
        }
        let is_at_rest = plan.draining.is_empty() && plan.retired_exchanges.is_empty();
        if plan.steps.is_empty() && (!self.wait || is_at_rest) {
            return Ok(());
        }
        self.confirm.ask(question)
    }

    /// Makes the change, and says how many steps were carried out and which are left.
    async fn make(
        &self,
        change: &TopologyChange<'_>,
        decide: impl FnOnce(Plan) -> Result<Plan, Failure>,
        applied: &mut Applied,
    ) -> Result<(), Failure> {
        let before = applied.applied;
        let made = make(change, decide, applied).await;
        // Afterwards: what cannot be written must not stop it half-way.
        let mut left = applied.left.iter();
        let said = left.try_for_each(|it| self.say(format!("left for a later apply, {it}")));
        made?;
        said?;
        let done = applied.applied - before;
        let steps = done + applied.left.len();
        self.say(format!("applied {done} of {steps} steps"))
    }

    /// To people; programs get it at the end.
    fn say(&self, text: impl fmt::Display) -> Result<(), Failure> {
        if self.output.is_json() { Ok(()) } else { print(text) }
    }

    /// Looks again and again until what drains by itself has drained, and deletes it.
    async fn wait(
        &self,
        change: &TopologyChange<'_>,
        applied: &mut Applied,
    ) -> Result<(), Failure> {
        let (began, within) = (Instant::now(), self.within.map(Ttl::as_duration));
        let mut waiting = DrainWait::new(within, change.management.statistics_interval());
        let look_every = change.management.address().timing.draining_every;
        let mut bar = DrainBar::new();
        loop {
            let (plan, _) = change.plan().await?;
            match waiting.next(&plan, began.elapsed()) {
                Next::Done => {
                    bar.end();
                    // What does not end by itself stays, and is said once more: the plan is far up the screen by now.
                    plan.draining.iter().try_for_each(|it| self.say(format!("stays: {it}")))?;
                    let mut exchanges = plan.retired_exchanges.iter();
                    exchanges.try_for_each(|it| self.say(format!("stays: {it}")))?;
                    applied.draining = plan.draining;
                    applied.retired_exchanges = plan.retired_exchanges;
                    return Ok(());
                }
                Next::GiveUp(gave_up) => {
                    bar.end();
                    return Err(Failure::failed(gave_up.to_string()));
                }
                Next::CarryOut => {
                    let left = within.map(|within| within.saturating_sub(began.elapsed()));
                    let before = applied.applied;
                    let made = self.make(change, Ok, applied);
                    bar.aside(at_most(left, made)).await?;
                    let done = applied.applied - before;
                    let again =
                        waiting.carried_out(&plan, began.elapsed(), done, &applied.uncounted);
                    let again = again.map_err(|gave_up| {
                        bar.end();
                        Failure::failed(gave_up.to_string())
                    })?;
                    // What could not be done is not tried again at once.
                    if again {
                        tokio::time::sleep(look_every).await;
                    }
                }
                Next::Look(progress) => {
                    bar.show(&progress);
                    tokio::time::sleep(look_every.max(REPORT_EVERY.min(began.elapsed() / LOOKS)))
                        .await;
                }
            }
        }
    }
}

/// Of what was done to the broker, also if it ended half-way.
pub(super) async fn record(
    settings: &Settings,
    action: &str,
    change: &TopologyChange<'_>,
    done: &Applied,
) {
    if done.applied == 0 {
        return;
    }
    let what = format!("topology {} at {}", change.topology.name, change.management.address());
    let count = u64::try_from(done.applied).ok();
    let action = NewAction { via: Via::Cli, action, what, count, why: None, orders: &[] };
    record_where_possible(settings, action).await;
}

/// Makes the change, and notes what was carried out and what is left.
pub(super) async fn make(
    change: &TopologyChange<'_>,
    decide: impl FnOnce(Plan) -> Result<Plan, Failure>,
    applied: &mut Applied,
) -> Result<(), Failure> {
    applied.left.clear();
    applied.uncounted.clear();
    let on_event = |event: ChangeEvent<'_>| match event {
        ChangeEvent::WaitsForLock => {
            report("another overdue is changing this topology: waiting until it is done");
        }
        ChangeEvent::Step(step, result) => {
            if result == StepResult::NotCounted {
                applied.uncounted.push(step.change.queue().to_owned());
            }
            match why_left(result) {
                None => applied.applied += 1,
                Some(why) => applied.left.push(format!("{why}: {}", step.change)),
            }
        }
    };
    change.make(decide, on_event).await.map(drop)
}

/// Stopped after any step, a change leaves a topology that works.
async fn at_most(
    left: Option<Duration>,
    made: impl Future<Output = Result<(), Failure>>,
) -> Result<(), Failure> {
    match left {
        None => made.await,
        Some(left) => tokio::time::timeout(left, made).await.unwrap_or(Ok(())),
    }
}

const fn why_left(result: StepResult) -> Option<&'static str> {
    match result {
        StepResult::Done => None,
        StepResult::NotEmpty => Some("messages have come in"),
        StepResult::NotCounted => Some("the broker does not count what is in it"),
        StepResult::Consumed => Some("somebody else consumes from it"),
        StepResult::Needed => Some("messages may still come this way"),
        StepResult::Bound => Some("somebody has bound it again"),
    }
}

/// The plan that was made from what is there, if the one that was saved says the same.
fn chosen(saved: Option<&Saved>, plan: Plan, topology: &Topology) -> Result<Plan, Failure> {
    match saved {
        Some(saved) => Ok(saved.plan.check(topology, &saved.broker, plan)?),
        None => Ok(plan),
    }
}

/// How many messages have drained: a bar for a person, lines for a log.
struct DrainBar {
    bar: Option<ProgressBar>,
    reported: Option<Instant>,
}

impl DrainBar {
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
            bar.set_draw_target(ProgressDrawTarget::hidden());
        }
        let done = work.await;
        if let Some(bar) = &self.bar {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        done
    }

    fn end(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
