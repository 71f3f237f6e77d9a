//! `overdue bench`: measurements, in a schema or a topology of their own.

mod change;
mod close;
mod delay;
mod locks;

use clap::Subcommand;

use super::exit::Failure;
use crate::config::Settings;

/// Measure
#[derive(Debug, Subcommand)]
pub(super) enum Bench {
    /// Closing orders: one by one, in batches, and as plain SQL
    Close(close::Close),
    /// Closing orders while others are locked: how late they are, and how long payments take
    Locks(locks::Locks),
    /// Delaying: our ladder, the binary ladder of other libraries, and the plugin
    Delay(delay::Delay),
    /// A change of the topology while messages wait: none is lost, none is early
    Change(change::Change),
}

impl Bench {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        match self {
            Self::Close(close) => close.run(settings).await,
            Self::Locks(locks) => locks.run(settings).await,
            Self::Delay(delay) => delay.run(settings).await,
            Self::Change(change) => change.run(settings).await,
        }
    }
}
