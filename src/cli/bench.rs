//! `overdue bench`: measurements, in a schema or a topology of their own.

mod change;
mod close;

use clap::Subcommand;

use super::exit::Failure;
use crate::config::Settings;

/// Measure
#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    /// Closing orders: one by one, in batches, and as plain SQL
    Close(close::Close),
    /// A change of the topology while messages wait: none is lost, none is early
    Change(change::Change),
}

impl Bench {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        match self {
            Self::Close(close) => close.run(settings).await,
            Self::Change(change) => change.run(settings).await,
        }
    }
}
