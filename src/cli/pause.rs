//! `overdue pause`, `resume` and `pauses`: for a while no worker closes orders of a timeout.

use std::{fmt, num::NonZeroU32};

use clap::Args;
use serde::Serialize;

use super::output::{Output, report};
use crate::{
    condition::pause::Pause,
    config::Settings,
    oncall::{actions::Via, failure::Failure, pauses, services},
    text::counted,
    topology::{Topology, level::Interval},
};

/// Stop closing the orders of a timeout, for a limited time
///
/// When the command returns, no worker closes these orders any more. Other timeouts continue.
#[derive(Debug, Args)]
pub(super) struct PauseArgs {
    /// The timeout, e.g. unpaid
    timeout: String,
    /// Time after which the pause ends, e.g. 1h; `overdue resume` ends it earlier
    #[arg(long = "for", value_name = "DURATION")]
    lasts: Interval,
    /// Reason, which is shown with the pause
    #[arg(long, value_name = "TEXT")]
    why: String,
    #[command(flatten)]
    output: Output,
}

/// End a pause, and close the orders that came due, the oldest first
#[derive(Debug, Args)]
pub(super) struct Resume {
    /// The timeout, e.g. unpaid
    timeout: String,
    /// Close at most this number of orders per second, e.g. 500, until fewer than half of it come due
    #[arg(long, value_name = "ORDERS", value_parser = rate)]
    rate: Option<NonZeroU32>,
    #[command(flatten)]
    output: Output,
}

/// List the pauses that have not ended, with end, author and reason
#[derive(Debug, Args)]
pub(super) struct Pauses {
    #[command(flatten)]
    output: Output,
}

/// Reads `500` or `500/s`.
fn rate(text: &str) -> Result<NonZeroU32, String> {
    let number = text.strip_suffix("/s").unwrap_or(text);
    number.parse().map_err(|_| format!("`{text}` is not a number of orders per second, e.g. 500"))
}

/// Pauses that are active now.
#[derive(Serialize)]
struct PausesAnswer {
    version: u32,
    pauses: Vec<Pause>,
    /// Timeouts that are not paused, but have an effect of one that is: a look at the table does not know which timeout a row has.
    by_message_alone: Vec<String>,
}

impl PausesAnswer {
    fn new(pauses: Vec<Pause>, topology: &Topology) -> Self {
        let is_paused = |name: &str| {
            pauses.iter().any(|pause| pause.per_second.is_none() && pause.timeout == name)
        };
        let (stopped, others): (Vec<_>, Vec<_>) =
            topology.timeouts.iter().partition(|timeout| is_paused(&timeout.name));
        let shares = |effect: &str| stopped.iter().any(|timeout| timeout.effect == effect);
        let others = others.iter().filter(|timeout| shares(&timeout.effect));
        let by_message_alone = others.map(|timeout| timeout.name.clone()).collect();
        Self { version: 1, pauses, by_message_alone }
    }
}

impl fmt::Display for PausesAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.pauses.is_empty() {
            return f.write_str("nothing is paused");
        }
        self.pauses.iter().try_for_each(|pause| writeln!(f, "{pause}"))?;
        self.by_message_alone.iter().try_for_each(|timeout| {
            writeln!(f, "{timeout} shares its effect with a paused timeout: until the pause ends, its orders are closed by their messages alone")
        })
    }
}

/// The pause that was ended.
#[derive(Serialize)]
struct Resumed {
    version: u32,
    #[serde(flatten)]
    was: Pause,
    rate: Option<NonZeroU32>,
}

impl fmt::Display for Resumed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let timeout = &self.was.timeout;
        match self.rate {
            None => write!(f, "{timeout} is resumed: what came due is closed now"),
            Some(rate) => write!(
                f,
                "{timeout} is resumed with {} per second, until fewer than half as many come due; `overdue resume {timeout}` ends that as well",
                counted(u64::from(rate.get()), "order")
            ),
        }
    }
}

impl PauseArgs {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, store) = (services::topology(settings)?, services::store(settings)?);
        let asked = (self.lasts.as_duration(), self.why.as_str());
        let of = (&store, &topology);
        let pauses = pauses::pause(of, &self.timeout, asked, Via::Cli, report).await?;
        self.output.print(&PausesAnswer::new(pauses, &topology))
    }
}

impl Resume {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, store) = (services::topology(settings)?, services::store(settings)?);
        let was = pauses::resume((&store, &topology), &self.timeout, self.rate, Via::Cli).await?;
        self.output.print(&Resumed { version: 1, was, rate: self.rate })
    }
}

impl Pauses {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let topology = services::topology(settings)?;
        let pauses = services::store(settings)?.pauses(&topology.name).await?;
        self.output.print(&PausesAnswer::new(pauses, &topology))
    }
}
