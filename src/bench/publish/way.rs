//! Ways to publish.

use std::fmt;

use futures_util::StreamExt;
use serde::Serialize;

use super::{error::PublishBenchError, setup::PublishSetup, size::WINDOW};
use crate::{bench::raw_client::RawClient, broker::Publisher, wire::Message};

/// Who publishes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub(crate) enum Way {
    /// The client by itself: one loop, one channel, one message after the other.
    Client,
    /// The publisher of this program, as a library.
    Publisher,
    /// `overdue publish`, from its start to its end.
    Command,
    /// A pipelined script with pika, from its start to its end.
    Script,
}

impl Way {
    pub(super) const ALL: [Self; 4] = [Self::Client, Self::Publisher, Self::Command, Self::Script];

    /// Publishes all of them, each mandatory, persistent and confirmed.
    pub(super) async fn publish(
        self,
        setup: &PublishSetup,
        messages: &[Message],
    ) -> Result<(), PublishBenchError> {
        match self {
            Self::Client => client(setup, messages).await,
            Self::Publisher => publisher(setup, messages).await,
            Self::Command => setup.command.run().await,
            Self::Script => match &setup.script {
                Some(script) => script.run().await,
                None => Ok(()),
            },
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Client => "lapin alone",
            Self::Publisher => "our publisher",
            Self::Command => "overdue publish",
            Self::Script => "pika script",
        })
    }
}

async fn client(setup: &PublishSetup, messages: &[Message]) -> Result<(), PublishBenchError> {
    let client = RawClient::open(&setup.address, "overdue bench: the client alone").await?;
    client.publish(messages, WINDOW).await?;
    client.close().await;
    Ok(())
}

async fn publisher(setup: &PublishSetup, messages: &[Message]) -> Result<(), PublishBenchError> {
    let publisher = Publisher::connect(&setup.address, "overdue bench: our publisher").await?;
    let sending = messages.iter().map(|message| publisher.publish(message.clone()));
    let mut sending = futures_util::stream::iter(sending).buffer_unordered(WINDOW);
    while let Some(sent) = sending.next().await {
        sent?;
    }
    Ok(())
}
