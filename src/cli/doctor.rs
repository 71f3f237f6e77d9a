//! `overdue doctor`: checks broker, database and machine, and prints what to fix.

use clap::Args;

use super::{
    exit::{self, Failure},
    output::Output,
};
use crate::{
    config::Settings,
    doctor,
    oncall::doctor::{alerts, facts},
};

/// Check broker, database and machine, and print what to fix
///
/// The command exits with 2 if there are errors.
#[derive(Debug, Args)]
pub(super) struct Doctor {
    #[command(flatten)]
    output: Output,
    /// Send a test message for each [[alert]] of the settings, and show what the other side answers
    #[arg(long)]
    send_alert: bool,
}

impl Doctor {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        if self.send_alert && settings.alert.is_empty() {
            return Err(Failure::configuration(
                "the settings have no alert: write one below [[alert]] in overdue.toml (docs/alerts.md)",
            ));
        }
        let mut facts = facts(settings).await;
        let topology = facts.topology.as_ref().map_or("?", |topology| &topology.name);
        facts.alerts = alerts(&settings.alert, topology, self.send_alert).await;
        let report = doctor::diagnose(&facts);
        self.output.print(&report)?;
        if report.ok {
            return Ok(());
        }
        let text = format!("there are errors: {}", report.summary);
        Err(Failure { code: exit::FINDINGS, text })
    }
}
