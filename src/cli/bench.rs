//! `overdue bench`: measurements, in a schema or a topology of their own.

mod all;
mod burst;
mod change;
mod close;
mod contestant;
mod delay;
mod finished;
mod locks;
mod own;
mod part;
mod publish;
mod relay;
mod relayer;
mod shown;
mod steady;

use clap::Subcommand;

use self::part::Part;
use super::exit::Failure;
use crate::config::Settings;

/// Measure
#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    #[command(flatten)]
    Part(Part),
    /// All of them, one after the other
    All(all::All),
    /// Close orders in the place of a worker
    #[command(hide = true)]
    Contestant(contestant::Contestant),
    /// Publish an outbox in the place of a worker
    #[command(hide = true)]
    Relayer(relayer::Relayer),
}

impl Bench {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        match self {
            Self::Part(part) => part.run(settings).await,
            Self::All(all) => all.run(settings).await,
            Self::Contestant(contestant) => contestant.run(settings).await,
            Self::Relayer(relayer) => relayer.run(settings).await,
        }
    }
}
