//! `overdue apply`: show the plan, ask where a person is there to answer, carry it out.

use std::io::{IsTerminal, Write};

use clap::Args;

use super::{exit::Failure, setup};
use crate::{
    broker::{Management, declare},
    config::Settings,
};

/// Declare the topology on the broker
#[derive(Debug, Args)]
pub(super) struct Apply {
    /// Do not ask
    #[arg(long)]
    yes: bool,
    /// Show the plan and change nothing
    #[arg(long)]
    dry_run: bool,
}

impl Apply {
    #[expect(clippy::print_stdout, reason = "the plan is the answer of this command")]
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let address = setup::address(settings)?;
        let management = Management::new(&address)?;
        let plan = declare::plan(&management, &topology).await?;
        println!("{plan}");
        if plan.is_empty() || self.dry_run {
            return Ok(());
        }
        if !self.yes && std::io::stdin().is_terminal() && !confirmed(&address.to_string())? {
            return Err(Failure::failed("nothing was changed"));
        }
        declare::carry_out(&management, &plan, |_| {}).await?;
        println!("applied {} changes at {address}", plan.changes.len());
        Ok(())
    }
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
