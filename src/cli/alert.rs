//! `overdue alert test`: nobody trusts an alert that was never sent.

use std::fmt;

use clap::{Args, Subcommand};
use serde::Serialize;

use super::{exit::Failure, output::Output, setup};
use crate::{
    alerting::notice::Notice,
    config::{AlertSettings, Settings},
    notify::{
        deliver::{deliver, shown},
        files::Files,
    },
    text::counted,
};

/// Messages about what is wrong, to webhooks and by mail
#[derive(Debug, Subcommand)]
pub(super) enum Alert {
    /// Send a test message for each alert of the settings, and show what the other side answers
    Test(Test),
}

#[derive(Debug, Args)]
pub(super) struct Test {
    /// Only this alert
    name: Option<String>,
    #[command(flatten)]
    output: Output,
}

impl Alert {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let Self::Test(test) = self;
        test.run(settings).await
    }
}

/// What became of the messages.
#[derive(Debug, Serialize)]
struct Report {
    version: u32,
    alerts: Vec<Tested>,
}

#[derive(Debug, Serialize)]
struct Tested {
    alert: String,
    format: &'static str,
    /// Scheme, host and port.
    to: String,
    taken: bool,
    answer: String,
}

impl Test {
    async fn run(&self, settings: &Settings) -> Result<(), Failure> {
        let topology = setup::topology(settings)?;
        let mut alerts = Vec::new();
        for alert in self.chosen(settings)? {
            alerts.push(test(alert, &topology.name).await);
        }
        let failed = alerts.iter().filter(|it| !it.taken).count();
        self.output.print(&Report { version: 1, alerts })?;
        match failed {
            0 => Ok(()),
            _ => Err(Failure::failed(format!(
                "{} did not take the message: docs/alerts.md says what each of them needs",
                counted(failed, "alert")
            ))),
        }
    }

    fn chosen<'a>(&self, settings: &'a Settings) -> Result<Vec<&'a AlertSettings>, Failure> {
        let is_chosen =
            |it: &&AlertSettings| self.name.as_ref().is_none_or(|name| *name == it.name);
        let chosen: Vec<_> = settings.alert.iter().filter(is_chosen).collect();
        if !chosen.is_empty() {
            return Ok(chosen);
        }
        let known: Vec<String> =
            settings.alert.iter().map(|alert| format!("`{}`", alert.name)).collect();
        Err(Failure::configuration(match (&self.name, known.as_slice()) {
            (Some(name), [_, ..]) => {
                format!("there is no alert `{name}`: the settings have {}", known.join(", "))
            }
            _ => "the settings have no alert: write one below [[alert]] in overdue.toml (docs/alerts.md)"
                .to_owned(),
        }))
    }
}

async fn test(alert: &AlertSettings, topology: &str) -> Tested {
    let files = Files::default();
    let answer = deliver(alert, &files, topology, &Notice::test()).await;
    Tested {
        alert: alert.name.clone(),
        format: alert.format.name(),
        to: shown(alert, &files).await,
        taken: answer.is_ok(),
        answer: answer.unwrap_or_else(|refused| refused.reason),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for it in &self.alerts {
            let word = if it.taken { "taken" } else { "FAILED" };
            writeln!(f, "{word:<7} {} ({}, {}): {}", it.alert, it.format, it.to, it.answer)?;
        }
        Ok(())
    }
}
