//! The AMQP client by itself: one loop, one channel, a window of unconfirmed messages.

use futures_util::{StreamExt, stream::FuturesUnordered};
use lapin::{
    BasicProperties, Channel, Confirmation,
    options::{BasicPublishOptions, ConfirmSelectOptions},
};

use crate::{
    broker::{BrokerAddress, ConnectError, Link},
    wire::Message,
};

/// Why the client could not publish.
#[derive(Debug, thiserror::Error)]
pub(crate) enum RawClientError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The client by itself failed.
    #[error("the client failed: {0}")]
    Client(#[from] lapin::Error),
}

/// A connection with one channel in confirm mode.
pub(crate) struct RawClient {
    link: Link,
    channel: Channel,
}

impl RawClient {
    /// Connects.
    ///
    /// # Errors
    /// No connection, or no channel.
    pub(crate) async fn open(
        address: &BrokerAddress,
        purpose: &str,
    ) -> Result<Self, RawClientError> {
        let link = Link::open(address, purpose).await?;
        let channel = link.channel().await?;
        link.answered(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(Self { link, channel })
    }

    /// Publishes them persistent, mandatory where they need a route, with at most `window` of them unconfirmed; returns when
    /// each has its confirm. What is returned or refused is not there, which is counted elsewhere.
    ///
    /// # Errors
    /// The channel or the connection is gone.
    pub(crate) async fn publish(
        &self,
        messages: impl IntoIterator<Item = &Message>,
        window: usize,
    ) -> Result<(), RawClientError> {
        let mut confirms = FuturesUnordered::new();
        for message in messages {
            if confirms.len() == window {
                confirmed(confirms.next().await)?;
            }
            let mandatory = !message.needs_no_route;
            let options = BasicPublishOptions { mandatory, ..BasicPublishOptions::default() };
            let properties = BasicProperties::default()
                .with_delivery_mode(2)
                .with_content_type("application/json".into())
                .with_message_id(message.message_id.as_str().into());
            let (exchange, key) = (message.exchange.as_str(), message.routing_key.as_str());
            let publishing = self.channel.basic_publish(
                exchange.into(),
                key.into(),
                options,
                &message.body,
                properties,
            );
            confirms.push(publishing.await?);
        }
        while let Some(confirm) = confirms.next().await {
            confirmed(Some(confirm))?;
        }
        Ok(())
    }

    /// Ends the connection.
    pub(crate) async fn close(self) {
        self.link.close().await;
    }
}

fn confirmed(confirm: Option<Result<Confirmation, lapin::Error>>) -> Result<(), RawClientError> {
    Ok(confirm.transpose().map(drop)?)
}
