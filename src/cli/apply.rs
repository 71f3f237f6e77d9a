//! `overdue apply`: show the plan, ask where a person is there to answer, carry it out.

mod wait;

use std::{
    fs,
    io::{IsTerminal, Write},
    path::PathBuf,
};

use clap::Args;

use super::{exit::Failure, plan::Discard, setup};
use crate::{
    broker::{
        Management,
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

impl Apply {
    #[expect(clippy::print_stdout, reason = "the plan is the answer of this command")]
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let address = setup::address(settings)?;
        let management = Management::new(&address)?;
        let plan = self.plan(&management, &topology).await?;
        println!("{plan}");
        if !plan.refusals.is_empty() {
            return Err(Failure::failed("the plan is refused, nothing was changed: see above"));
        }
        if self.dry_run {
            return Ok(());
        }
        if !plan.steps.is_empty() {
            let ask = !self.yes && std::io::stdin().is_terminal();
            if ask && !confirmed(&address.to_string())? {
                return Err(Failure::failed("nothing was changed"));
            }
            carry_out(&management, &plan).await?;
        }
        if self.wait {
            let within = self.within.map(Ttl::as_duration);
            wait::wait(&management, &topology, &self.discard, within).await?;
        }
        Ok(())
    }

    async fn plan(&self, management: &Management, topology: &Topology) -> Result<Plan, Failure> {
        let (plan, observed) = apply::plan(management, topology, &self.discard.names()).await?;
        let Some(path) = &self.saved else { return Ok(plan) };
        let unreadable = |reason: String| {
            Failure::configuration(format!("{} is no saved plan: {reason}", path.display()))
        };
        let text = fs::read_to_string(path).map_err(|error| unreadable(error.to_string()))?;
        let saved: SavedPlan =
            serde_json::from_str(&text).map_err(|error| unreadable(error.to_string()))?;
        saved.check(topology, &observed)?;
        Ok(saved.plan)
    }
}

#[expect(clippy::print_stdout, reason = "what was done is the answer of this command")]
async fn carry_out(management: &Management, plan: &Plan) -> Result<(), Failure> {
    let mut done = 0;
    apply::carry_out(management, plan, |step, carried| match carried {
        Done::Yes => done += 1,
        Done::NotEmpty => println!("left for later, it is not empty yet: {}", step.change),
    })
    .await?;
    println!("applied {done} of {} steps", plan.steps.len());
    Ok(())
}

#[expect(clippy::print_stderr, reason = "a question to the person at the terminal")]
fn confirmed(place: &str) -> Result<bool, Failure> {
    eprint!("apply this at {place}? [y/N] ");
    let unreadable =
        |error: std::io::Error| Failure::failed(format!("cannot read the answer: {error}"));
    std::io::stderr().flush().map_err(unreadable)?;
    let mut answer = String::new();
    std::io::stdin().read_line(&mut answer).map_err(unreadable)?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
