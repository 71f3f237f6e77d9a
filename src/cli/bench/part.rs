//! The benchmarks, each a command.

use clap::Subcommand;

use super::{burst, change, close, delay, finished::PartReport, locks, publish, relay, steady};
use crate::{cli::exit::Failure, config::Settings};

/// A benchmark.
#[derive(Debug, Subcommand)]
pub(in crate::cli) enum Part {
    /// Closing orders: one by one, in batches, and as plain SQL
    Close(close::Close),
    /// Closing orders while others are locked: how late they are, and how long payments take
    Locks(locks::Locks),
    /// A burst that is due at one instant: the worker beside plain SQL, a poller and others
    Burst(burst::Burst),
    /// One order after the other at several rates: how late they are closed, and what that costs
    Steady(steady::Steady),
    /// Delaying: our ladder, the binary ladder of other libraries, and the plugin
    Delay(delay::Delay),
    /// Publishing with confirms: the AMQP client alone, this program, and a script in Python
    Publish(publish::Publish),
    /// Events from the outbox to the broker: the relay, the client alone, plain SQL, and what is usual
    Relay(relay::Relay),
    /// A change of the topology while messages wait: none is lost, none is early
    Change(change::Change),
}

impl Part {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        match self {
            Self::Close(close) => close.run(settings).await,
            Self::Locks(locks) => locks.run(settings).await,
            Self::Burst(burst) => burst.run(settings).await,
            Self::Steady(steady) => steady.run(settings).await,
            Self::Delay(delay) => delay.run(settings).await,
            Self::Publish(publish) => publish.run(settings).await,
            Self::Relay(relay) => relay.run(settings).await,
            Self::Change(change) => change.run(settings).await,
        }
    }

    /// The result, beside those of others.
    pub(super) async fn measure(
        &self,
        command: &str,
        settings: &Settings,
    ) -> Result<PartReport, Failure> {
        match self {
            Self::Close(close) => close.finish(settings).await?.part(command),
            Self::Locks(locks) => locks.finish(settings).await?.part(command),
            Self::Burst(burst) => burst.finish(settings).await?.part(command),
            Self::Steady(steady) => steady.finish(settings).await?.part(command),
            Self::Delay(delay) => delay.finish(settings).await?.part(command),
            Self::Publish(publish) => publish.finish(settings).await?.part(command),
            Self::Relay(relay) => relay.finish(settings).await?.part(command),
            Self::Change(change) => change.finish(settings).await?.part(command),
        }
    }
}
