//! What `bench relay` starts in the place of a worker, so that what it uses is counted apart.

use clap::{Args, ValueEnum};

use crate::{
    bench::{
        contestant::outbox::{self, OutboxError},
        raw_client::RawClient,
        relay::{FLOOR_BATCH, RIVAL_BATCH, WINDOW, messages},
    },
    cli::{exit::Failure, setup},
    config::Settings,
};

/// What works in the place of our relay.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum Rival {
    /// Publishes the same, without a database
    Client,
    /// Takes and deletes, without publishing
    Database,
    /// Locks, publishes, deletes
    SkipLocked,
}

/// Publishes an outbox until a signal.
#[derive(Debug, Args)]
pub(in crate::cli) struct Relayer {
    /// In which way
    rival: Rival,
    /// Where events go
    #[arg(long)]
    exchange: String,
    /// How many the client publishes by itself
    #[arg(long)]
    events: usize,
}

impl Relayer {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let stop = setup::stop_on_signals()?;
        tokio::select! {
            ended = self.relay(settings) => ended,
            () = stop.requested() => Ok(()),
        }
    }

    async fn relay(&self, settings: &Settings) -> Result<(), Failure> {
        let (address, store) = (setup::address(settings)?, setup::store(settings)?);
        let exchange = self.exchange.as_str();
        let ended = match self.rival {
            Rival::Client => {
                let messages = messages(exchange, self.events);
                outbox::client_alone(&address, &messages, WINDOW).await
            }
            Rival::Database => outbox::relay(&store, None, exchange, FLOOR_BATCH).await,
            Rival::SkipLocked => {
                let client = RawClient::open(&address, "overdue bench: events").await;
                let client = client.map_err(OutboxError::from)?;
                outbox::relay(&store, Some(&client), exchange, RIVAL_BATCH).await
            }
        };
        Ok(ended.map(|never| match never {})?)
    }
}

impl From<OutboxError> for Failure {
    fn from(error: OutboxError) -> Self {
        match error {
            OutboxError::Store(error) => error.into(),
            OutboxError::Client(_) => Self::failed(crate::text::error_chain(&error)),
        }
    }
}
