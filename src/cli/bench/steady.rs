//! `overdue bench steady`: how late orders are closed at several rates, and what that costs.

use std::time::Duration;

use clap::Args;

use super::{
    finished::Finished,
    own::{Who, Word, on_own_stage},
    shown::Shown,
};
use crate::{
    bench::{
        stage::Delays,
        steady::{self, SteadySize, report::SteadyReport},
    },
    cli::{exit::Failure, output::report_step},
    config::Settings,
    topology::lead::Lead,
};

/// In the order they are measured and shown.
const ALL: [Word; 4] = [Word::Overdue, Word::OverdueNoEvents, Word::Poller, Word::Tutorial];

/// Closes orders that become due one after the other: a real worker as a process, and beside it a poller and what tutorials
/// show. Notices are published while others come out, as order services do.
///
/// In a schema and topologies of its own, `overdue-bench-…`, in the virtual host of the settings; all are removed at the end.
/// Needs the rights of a topology administrator on it, and to read and write all of it.
#[derive(Debug, Args)]
pub(in crate::cli) struct Steady {
    /// Orders that become due per second, separated by commas
    #[arg(long, default_values_t = [10, 200, 1_000, 5_000], value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rates: Vec<u32>,
    /// At which of them others than our worker are measured, too
    #[arg(long, default_values_t = [200], value_delimiter = ',', value_name = "RATES",
        value_parser = clap::value_parser!(u32).range(1..=20_000))]
    rivals_at: Vec<u32>,
    /// How long, at each rate; shorter where these are more than 200,000 orders
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=600))]
    seconds: u32,
    /// Rounds of each rate and contestant
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Seconds for which a worker without work is watched; 0 leaves it out
    #[arg(long, default_value_t = 10, value_parser = clap::value_parser!(u32).range(0..=600))]
    idle: u32,
    /// Each notice waits in a ladder, for a time of its own up to 10 s; our worker alone is measured
    #[arg(long)]
    random_delays: bool,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    shown: Shown,
}

impl Steady {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let finished = self.finish(settings).await?;
        let plot = finished.report.plot();
        self.shown.show(finished, &plot)
    }

    pub(super) async fn finish(
        &self,
        settings: &Settings,
    ) -> Result<Finished<SteadyReport>, Failure> {
        let all = if self.random_delays { &ALL[..1] } else { &ALL };
        let contestants = self.who.contestants(all)?;
        let size = SteadySize {
            rates: self.rates.clone(),
            rivals_at: self.rivals_at.clone(),
            seconds: self.seconds,
            rounds: usize::try_from(self.rounds).unwrap_or(usize::MAX),
            idle: Duration::from_secs(self.idle.into()),
        };
        let delays = if self.random_delays { Delays::Random } else { Delays::Level(Lead::Usual) };
        let report =
            on_own_stage(settings, &self.who.measured, delays, contestants.len(), async |stage| {
                steady::run(stage, &contestants, &size, report_step).await
            })
            .await?;
        let is_right = report.broken.is_empty();
        Ok(Finished::of(report, is_right))
    }
}
