//! `overdue apply`: show the plan, ask, carry it out.

mod make;
mod wait;

use std::{fs, path::PathBuf};

use clap::Args;

use super::{confirm::Confirm, exit::Failure, output::print, plan::Discard, setup};
use crate::{
    broker::TopologyChange,
    config::Settings,
    plan::{
        Plan,
        saved::{BrokerIdentity, PlanFileError, SavedPlan},
        snapshot::Snapshot,
    },
    topology::{Topology, level::Ttl},
};

/// Bring the topology to the broker
#[derive(Debug, Args)]
pub(super) struct Apply {
    /// A plan saved by `overdue plan --out`: carried out exactly, or refused when the broker has changed
    #[arg(value_name = "PLAN", conflicts_with = "queues")]
    saved: Option<PathBuf>,
    #[command(flatten)]
    discard: Discard,
    #[command(flatten)]
    confirm: Confirm,
    /// Show the plan and change nothing
    #[arg(long)]
    dry_run: bool,
    /// Wait until retired queues have drained, and delete them
    #[arg(long, conflicts_with = "dry_run")]
    wait: bool,
    /// With --wait: give up after this time, e.g. 45m
    #[arg(long, value_name = "DURATION", requires = "wait")]
    within: Option<Ttl>,
}

/// A plan from a file, and the broker it is to be carried out on.
struct Saved {
    plan: SavedPlan,
    broker: BrokerIdentity,
}

impl Apply {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let management = setup::management(settings)?;
        let change = TopologyChange {
            management: &management,
            topology: &topology,
            discard: self.discard.names(),
        };
        let (plan, observed) = change.plan().await?;
        let identity = management.identity().await?;
        let heading = identity.heading(&topology);
        let saved = self.saved(identity)?;
        let plan = chosen(saved.as_ref(), plan, &observed, &topology)?;
        print(format!("{heading}\n{plan}"))?;
        self.discard.note(&plan);
        if self.dry_run {
            return accepted(&plan);
        }
        let question = format!("apply this at {}?", management.address());
        self.agree(&plan, &question)?;
        if !plan.steps.is_empty() {
            let shown = plan;
            let decide = |plan, observed: &Snapshot| {
                let plan = chosen(saved.as_ref(), plan, observed, &topology)?;
                if plan.changes().ne(shown.changes()) {
                    print(format!("the broker has changed meanwhile, the plan is now:\n{plan}"))?;
                    self.agree(&plan, &question)?;
                }
                Ok(plan)
            };
            make::make(&change, decide).await?;
        }
        if self.wait {
            // What was discarded is gone by now.
            let change = TopologyChange::new(&management, &topology);
            wait::wait(&change, self.within.map(Ttl::as_duration)).await?;
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

    /// A plan without anything to do is not asked about, unless queues that drain are to be deleted.
    fn agree(&self, plan: &Plan, question: &str) -> Result<(), Failure> {
        accepted(plan)?;
        if plan.steps.is_empty() && !(self.wait && !plan.draining.is_empty()) {
            return Ok(());
        }
        self.confirm.ask(question)
    }
}

/// The plan that was saved, if it still holds on what is there; without one, the plan that was made from that.
fn chosen(
    saved: Option<&Saved>,
    plan: Plan,
    observed: &Snapshot,
    topology: &Topology,
) -> Result<Plan, Failure> {
    let Some(saved) = saved else { return Ok(plan) };
    saved.plan.check(topology, &saved.broker, observed)?;
    Ok(saved.plan.plan.clone())
}

fn accepted(plan: &Plan) -> Result<(), Failure> {
    if plan.refusals.is_empty() {
        return Ok(());
    }
    Err(Failure::failed("the plan is refused, nothing was changed: see above"))
}
