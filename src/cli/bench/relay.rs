//! `overdue bench relay`: how fast events get from the outbox to the broker.

use clap::{Args, ValueEnum};

use super::{
    finished::Finished,
    own::{Measured, on_own_stage},
    shown::Shown,
};
use crate::{
    bench::{
        relay::{self, RelaySize, Relayer, report::RelayReport},
        stage::Delays,
    },
    cli::{exit::Failure, output::report_step},
    config::Settings,
    topology::lead::Lead,
};

/// Who publishes, on the command line.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Word {
    /// Our worker
    Overdue,
    /// The AMQP client, without a database
    Client,
    /// Rows taken and deleted, without publishing
    Database,
    /// What is usual: lock 100 rows, publish, wait for the confirms, delete, commit
    SkipLocked,
}

/// Fills an outbox and has it published: by a real worker as a process, and beside it by the AMQP client alone, by plain SQL
/// that only takes and deletes the rows, and by what is usual. Every event is received and counted.
///
/// In a schema and a topology of its own, `overdue-bench-…`, in the virtual host of the settings; all are removed at the end.
/// Needs the rights of a topology administrator on it, and to read and write all of it.
#[derive(Debug, Args)]
pub(in crate::cli) struct Relay {
    /// Events in the outbox, two of each order
    #[arg(long, default_value_t = 50_000, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    events: u32,
    /// Rounds of each; one more, with fewer events, is not counted
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=100))]
    rounds: u32,
    /// Only these, separated by commas
    #[arg(long, value_delimiter = ',', value_enum, value_name = "RELAYER")]
    only: Vec<Word>,
    #[command(flatten)]
    measured: Measured,
    #[command(flatten)]
    shown: Shown,
}

impl Relay {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let finished = self.finish(settings).await?;
        let plot = finished.report.plot();
        self.shown.show(finished, &plot)
    }

    pub(super) async fn finish(
        &self,
        settings: &Settings,
    ) -> Result<Finished<RelayReport>, Failure> {
        let relayers = self.relayers()?;
        let of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        let size = RelaySize { events: of(self.events), rounds: of(self.rounds) };
        let report =
            on_own_stage(settings, &self.measured, Delays::Level(Lead::Usual), 1, async |stage| {
                relay::run(stage, &relayers, size, report_step).await
            })
            .await?;
        let is_right = report.broken.is_empty();
        Ok(Finished::of(report, is_right))
    }

    fn relayers(&self) -> Result<Vec<Relayer>, Failure> {
        let mut relayers = Vec::new();
        let wanted = |word: &&Word| self.only.is_empty() || self.only.contains(word);
        for word in Word::value_variants().iter().filter(wanted) {
            match word {
                Word::Overdue => {
                    let programs = self.measured.programs()?.into_iter();
                    relayers.extend(
                        programs.map(|(program, label)| Relayer::Worker { program, label }),
                    );
                }
                Word::Client => relayers.push(Relayer::Client),
                Word::Database => relayers.push(Relayer::Database),
                Word::SkipLocked => relayers.push(Relayer::SkipLocked),
            }
        }
        Ok(relayers)
    }
}
