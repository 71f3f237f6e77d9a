//! `overdue apply`: shows the plan, asks, carries it out, and can wait until retired queues have drained.

use std::{
    collections::BTreeSet,
    fmt,
    time::{Duration, Instant},
};

use clap::Args;
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
    plan::{Draining, Plan, RetiredExchange, fingerprint::Fingerprint},
    topology::level::Ttl,
};

/// Interval of reports while `--wait` waits: a pipeline treats silence as a hang.
const REPORT_EVERY: Duration = Duration::from_secs(30);

/// A pause between two plans lasts 1/100 of the wait so far: a long wait plans less often, and ends at most 1 % late.
const LOOKS: u32 = 100;

/// Change the broker to match the topology file; asks first
///
/// The command shows the plan, and asks before it changes the broker. A repeated command changes nothing.
#[derive(Debug, Args)]
pub(super) struct Apply {
    /// Refuse a plan with another fingerprint than this one, which `overdue plan` printed
    #[arg(long, value_name = "FINGERPRINT")]
    plan: Option<Fingerprint>,
    #[command(flatten)]
    discard: Discard,
    #[command(flatten)]
    confirm: Confirm,
    /// Wait until retired queues have drained, and delete them
    #[arg(long)]
    wait: bool,
    /// End the wait of --wait after this time, e.g. 45m
    #[arg(long, value_name = "DURATION", requires = "wait")]
    within: Option<Ttl>,
    #[command(flatten)]
    output: Output,
}

#[derive(Default, Serialize)]
pub(super) struct Applied {
    version: u32,
    /// Steps that were carried out.
    pub(super) applied: usize,
    /// Steps that were left for a later apply, and the reason.
    pub(super) left: Vec<String>,
    /// Retired queues that are not empty yet.
    draining: Vec<Draining>,
    /// Exchanges that are no longer in the topology, but are still needed.
    retired_exchanges: Vec<RetiredExchange>,
}

impl Apply {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, management) = setup::broker(settings)?;
        let goal = Goal::Applied { discard: self.discard.names() };
        let change = TopologyChange { management: &management, topology: &topology, goal };
        let (plan, _) = change.plan().await?;
        let heading = management.identity().await?.heading(&topology);
        let plan = plan.checked(self.plan.as_ref())?;
        self.output.preview(format!("{heading}\n{plan}"))?;
        self.discard.note(&plan);
        let question = format!("apply this at {}?", management.address());
        self.agree(&plan, &question)?;
        let mut applied = Applied { version: 1, ..Applied::default() };
        applied.draining.clone_from(&plan.draining);
        applied.retired_exchanges.clone_from(&plan.retired_exchanges);
        let ended = self.carry_out(&change, plan, &question, &mut applied).await;
        record(settings, "apply", &change, &applied).await;
        // Print the answer after a failure too: it shows which steps were carried out.
        if self.output.is_json() {
            print_json(&applied)?;
        }
        ended
    }

    /// Makes the change that was shown; with `--wait`, waits for retired queues to drain.
    async fn carry_out(
        &self,
        change: &TopologyChange<'_>,
        plan: Plan,
        question: &str,
        applied: &mut Applied,
    ) -> Result<(), Failure> {
        let TopologyChange { management, topology, .. } = *change;
        let mut retired = plan.retired();
        if !plan.steps.is_empty() {
            let shown = plan;
            let decide = |plan: Plan| {
                let plan = plan.checked(self.plan.as_ref())?;
                if plan.changes().ne(shown.changes()) {
                    let text =
                        format!("the broker has changed meanwhile, the plan is now:\n{plan}");
                    self.output.preview(text)?;
                    self.agree(&plan, question)?;
                    retired = plan.retired();
                }
                Ok(plan)
            };
            self.make(change, decide, applied).await?;
        }
        if self.wait {
            // No `discard` here: those queues are already deleted.
            self.wait(&TopologyChange::new(management, topology), &retired, applied).await?;
        }
        Ok(())
    }

    /// Asks before the change. A plan without steps needs no question, unless `--wait` will delete what is retired.
    fn agree(&self, plan: &Plan, question: &str) -> Result<(), Failure> {
        if !plan.refusals.is_empty() {
            return Err(Failure::failed("nothing was changed: the lines with ! refuse the plan"));
        }
        let is_at_rest = plan.draining.is_empty() && plan.retired_exchanges.is_empty();
        if plan.steps.is_empty() && (!self.wait || is_at_rest) {
            return Ok(());
        }
        self.confirm.ask(question)
    }

    /// Makes the change, and prints how many steps were carried out and which are left.
    async fn make(
        &self,
        change: &TopologyChange<'_>,
        decide: impl FnOnce(Plan) -> Result<Plan, Failure>,
        applied: &mut Applied,
    ) -> Result<(), Failure> {
        let before = applied.applied;
        let made = make(change, decide, applied).await;
        // Print after the change: a failed write must not stop it half-way.
        let mut left = applied.left.iter();
        let said = left.try_for_each(|it| self.say(format!("left for a later apply, {it}")));
        made?;
        said?;
        let done = applied.applied - before;
        let steps = done + applied.left.len();
        self.say(format!("applied {done} of {steps} steps"))
    }

    /// Prints text to people; programs get the answer at the end.
    fn say(&self, text: impl fmt::Display) -> Result<(), Failure> {
        if self.output.is_json() { Ok(()) } else { print(text) }
    }

    /// Plans, applies and pauses until only steps are left that need a person. Then prints the plan, because the first one has
    /// scrolled away.
    async fn wait(
        &self,
        change: &TopologyChange<'_>,
        retired: &BTreeSet<String>,
        applied: &mut Applied,
    ) -> Result<(), Failure> {
        let (began, within) = (Instant::now(), self.within.map(Ttl::as_duration));
        let look_every = change.management.address().timing.draining_every;
        let mut reported = began;
        loop {
            let (plan, _) = change.plan().await?;
            if !plan.refusals.is_empty() {
                return Err(Failure::failed(format!("the plan is refused by now\n{plan}")));
            }
            if plan.is_at_rest() {
                self.say(&plan)?;
                applied.draining = plan.draining;
                applied.retired_exchanges = plan.retired_exchanges;
                return Ok(());
            }
            let left = within.map(|within| within.saturating_sub(began.elapsed()));
            if let Some(within) = within.filter(|_| left == Some(Duration::ZERO)) {
                let text = format!(
                    "queues still drain after {within:?}; nothing is lost, and a later `overdue apply` continues:\n{plan}"
                );
                return Err(Failure::failed(text));
            }
            if reported.elapsed() >= REPORT_EVERY {
                report(format!("waiting:\n{plan}"));
                reported = Instant::now();
            }
            if !plan.steps.is_empty() {
                let decide = |plan: Plan| {
                    if plan.only_retires(retired) {
                        return Ok(plan);
                    }
                    Err(Failure::failed(format!(
                        "another apply or program has changed the topology, so this apply no longer waits; nothing is lost. \
                         `overdue plan` shows:\n{plan}"
                    )))
                };
                at_most(left, self.make(change, decide, applied)).await?;
            }
            tokio::time::sleep(look_every.max(REPORT_EVERY.min(began.elapsed() / LOOKS))).await;
        }
    }
}

/// Records the steps in the database, also if the change ended half-way.
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

/// Makes the change; collects in `applied` the steps that were carried out or left.
pub(super) async fn make(
    change: &TopologyChange<'_>,
    decide: impl FnOnce(Plan) -> Result<Plan, Failure>,
    applied: &mut Applied,
) -> Result<(), Failure> {
    applied.left.clear();
    let on_event = |event: ChangeEvent<'_>| match event {
        ChangeEvent::WaitsForLock => {
            report("another overdue is changing this topology: waiting until it is done");
        }
        ChangeEvent::Step(step, result) => match why_left(result) {
            None => applied.applied += 1,
            Some(why) => applied.left.push(format!("{why}: {}", step.change)),
        },
    };
    change.make(decide, on_event).await.map(drop)
}

/// May stop the change after any step: the topology works after each one.
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
        StepResult::NotCounted => Some("the broker does not count its messages"),
        StepResult::Consumed => Some("another client consumes from it"),
        StepResult::Needed => Some("messages may still come this way"),
        StepResult::Bound => Some("another program has bound it again"),
    }
}
