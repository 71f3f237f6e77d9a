//! `overdue plan`: shows what `apply` would change, and the messages that wait; changes nothing.

use std::collections::BTreeSet;

use clap::Args;

use super::{
    exit::{self, Failure},
    output::{Output, print, print_json, report},
    setup,
};
use crate::{
    config::Settings,
    oncall::drift::pending,
    plan::{Plan, Refusal},
};

/// Show what would change on the broker, and what waits there
#[derive(Debug, Args)]
pub(super) struct PlanArgs {
    #[command(flatten)]
    discard: Discard,
    #[command(flatten)]
    output: Output,
    /// Exit with 2 if there are changes to make
    #[arg(long)]
    check: bool,
}

/// Queues that may be deleted with their messages.
#[derive(Clone, Debug, Args)]
pub(super) struct Discard {
    /// Delete this queue with the messages that wait in it, which are lost; may be repeated
    #[arg(long = "discard", value_name = "QUEUE")]
    queues: Vec<String>,
}

impl Discard {
    pub(super) fn names(&self) -> BTreeSet<String> {
        self.queues.iter().cloned().collect()
    }

    /// Reports names in `--discard` that no plan deletes. A misspelt name is not an error: in the second run of a pipeline the
    /// queue is gone.
    pub(super) fn note(&self, plan: &Plan) {
        let leaving = plan.leaving();
        let refused = |name: &str| {
            let kept = |refusal: &Refusal| matches!(refusal, Refusal::Kept { queue } | Refusal::NotCounted { queue, .. } if queue == name);
            plan.refusals.iter().any(kept)
        };
        for name in self.queues.iter().filter(|name| !leaving.contains(*name) && !refused(name)) {
            report(format!("note: --discard {name} does nothing: there is no queue of this name"));
        }
    }
}

impl PlanArgs {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, management) = setup::broker(settings)?;
        let pending = pending(&topology, &management, &self.discard.names()).await?;
        if self.output.is_json() {
            print_json(&pending)?;
        } else {
            print(format!("{}\n{}", pending.broker.heading(&topology), pending.plan))?;
            print(format!("fingerprint {}, for `overdue apply --plan`", pending.fingerprint))?;
        }
        self.discard.note(&pending.plan);
        verdict(&pending.plan, self.check)
    }
}

fn verdict(plan: &Plan, check: bool) -> Result<(), Failure> {
    if !plan.refusals.is_empty() {
        return Err(Failure::failed("the plan is refused: see its lines with !"));
    }
    if check && !plan.is_empty() {
        return Err(Failure { code: exit::FINDINGS, text: "changes are pending".to_owned() });
    }
    Ok(())
}
