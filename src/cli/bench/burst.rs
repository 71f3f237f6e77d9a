//! `overdue bench burst`: how long many orders take that are due at one instant.

use clap::Args;

use super::{
    finished::Finished,
    own::{Who, Word, on_own_stage},
    shown::Shown,
};
use crate::{
    bench::{
        burst::{self, BurstSize, TUTORIAL_AT_MOST, report::BurstReport},
        stage::Delays,
    },
    cli::{exit::Failure, output::report_step},
    config::Settings,
    topology::lead::Lead,
};

/// In the order they are measured and shown.
const ALL: [Word; 6] =
    [Word::Overdue, Word::OverdueX3, Word::PlainSql, Word::Poller, Word::Tutorial, Word::Broker];

/// Closes orders that are due at one instant: a real worker as a process, and beside it plain SQL, a poller, what tutorials
/// show, and the broker alone.
///
/// In a schema and topologies of its own, `overdue-bench-…`, in the virtual host of the settings; all are removed at the end.
/// Needs the rights of a topology administrator on it, and to read and write all of it.
#[derive(Debug, Args)]
pub(in crate::cli) struct Burst {
    #[arg(
        long,
        help = format!("Orders due at one instant; what tutorials show closes at most {TUTORIAL_AT_MOST}"),
        default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    orders: u32,
    /// Rounds of each contestant
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// `delay.lead` of the worker's topology [default: 2s]
    #[arg(long, value_name = "DURATION")]
    lead: Option<Lead>,
    #[command(flatten)]
    who: Who,
    #[command(flatten)]
    shown: Shown,
}

impl Burst {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let finished = self.finish(settings).await?;
        let plot = finished.report.plot();
        self.shown.show(finished, &plot)
    }

    pub(super) async fn finish(
        &self,
        settings: &Settings,
    ) -> Result<Finished<BurstReport>, Failure> {
        let contestants = self.who.contestants(&ALL)?;
        let of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let size = BurstSize { orders: of(self.orders), rounds: of(self.rounds) };
        let report = on_own_stage(
            settings,
            &self.who.measured,
            Delays::Level(self.lead.unwrap_or_default()),
            contestants.len(),
            async |stage| burst::run(stage, &contestants, size, report_step).await,
        )
        .await?;
        let is_right = report.broken.is_empty();
        Ok(Finished::of(report, is_right))
    }
}
