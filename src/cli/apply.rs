//! `overdue apply`: show the plan, ask where a person is there to answer, carry it out.

mod wait;

use std::{
    fs,
    io::{IsTerminal, Write},
    path::PathBuf,
};

use clap::Args;

use super::{
    exit::Failure,
    output::{print, report},
    plan::Discard,
    setup,
};
use crate::{
    broker::{
        BrokerAddress, Management, Turn,
        apply::{self, Done},
    },
    config::Settings,
    plan::{Plan, saved::SavedPlan},
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
    /// Do not ask
    #[arg(long)]
    yes: bool,
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

/// Where a topology is brought to.
struct Ground {
    topology: Topology,
    address: BrokerAddress,
    management: Management,
}

impl Apply {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let address = setup::address(settings)?;
        let management = setup::management(settings)?;
        let ground = Ground { topology, address, management };
        let plan = self.plan(&ground).await?;
        print(&plan)?;
        self.discard.note(&plan);
        if self.dry_run {
            return accepted(&plan);
        }
        self.agree(&plan, &ground)?;
        if !plan.steps.is_empty() {
            self.carry_out(&ground, &plan).await?;
        }
        if self.wait {
            let within = self.within.map(Ttl::as_duration);
            wait::wait(&ground, within).await?;
        }
        Ok(())
    }

    async fn plan(&self, ground: &Ground) -> Result<Plan, Failure> {
        let Ground { topology, management, .. } = ground;
        let (plan, observed) = apply::plan(management, topology, &self.discard.names()).await?;
        let Some(path) = &self.saved else { return Ok(plan) };
        let unreadable = |reason: String| {
            Failure::configuration(format!("{} is no saved plan: {reason}", path.display()))
        };
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let saved: SavedPlan =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        saved.check(topology, &management.place().await?, &observed)?;
        Ok(saved.plan)
    }

    /// Nobody is asked about a plan that was saved and looked at, nor, in a pipeline, about one that only adds.
    fn agree(&self, plan: &Plan, ground: &Ground) -> Result<(), Failure> {
        accepted(plan)?;
        if plan.steps.is_empty() || self.yes {
            return Ok(());
        }
        if std::io::stdin().is_terminal() {
            let agreed = confirmed(&ground.address.to_string())?;
            return if agreed { Ok(()) } else { Err(Failure::failed("nothing was changed")) };
        }
        if self.saved.is_none() && plan.steps.iter().any(|step| !step.adds()) {
            return Err(Failure::usage(
                "this takes queues out of use, and nobody is here to ask: look at the plan above and add --yes. \
                 Nothing was changed",
            ));
        }
        Ok(())
    }

    /// In its turn, and so once more from what is there then.
    async fn carry_out(&self, ground: &Ground, shown: &Plan) -> Result<(), Failure> {
        let turn = ground.turn().await?;
        let plan = self.plan(ground).await?;
        if plan.changes().ne(shown.changes()) {
            print(format!("meanwhile the broker has changed, now it is:\n{plan}"))?;
            self.agree(&plan, ground)?;
        }
        carry_out(&ground.management, &plan).await?;
        turn.end().await;
        Ok(())
    }
}

impl Ground {
    async fn turn(&self) -> Result<Turn, Failure> {
        let told = || report("another overdue is changing this topology: waiting until it is done");
        Ok(Turn::take(&self.address, &self.topology, told).await?)
    }
}

fn accepted(plan: &Plan) -> Result<(), Failure> {
    if plan.refusals.is_empty() {
        return Ok(());
    }
    Err(Failure::failed("the plan is refused, nothing was changed: see above"))
}

async fn carry_out(management: &Management, plan: &Plan) -> Result<(), Failure> {
    let mut done = 0;
    let mut left = Vec::new();
    apply::carry_out(management, plan, |step, carried| {
        let why = match carried {
            Done::Yes => {
                done += 1;
                return;
            }
            Done::NotEmpty => "something has come in",
            Done::Bound => "somebody has bound it again",
        };
        left.push(format!("left for a later apply, {why}: {}\n", step.change));
    })
    .await?;
    // Afterwards: what cannot be written is no reason to stop half-way.
    print(format!("{}applied {done} of {} steps", left.concat(), done + left.len()))
}

fn confirmed(place: &str) -> Result<bool, Failure> {
    let unreadable =
        |error: std::io::Error| Failure::failed(format!("cannot read the answer: {error}"));
    let mut stderr = std::io::stderr();
    write!(stderr, "apply this at {place}? [y/N] ").map_err(unreadable)?;
    stderr.flush().map_err(unreadable)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(unreadable)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
