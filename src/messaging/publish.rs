//! Publishes with confirms: a connection, and a task that owns each channel.
//!
//! lapin attaches a `basic.return` to the next confirm that it returns, which may be for another message. So returns are
//! matched by `message-id`. A success is reported only after all confirms that arrived with it were checked.

mod error;
pub(crate) mod publisher_pool;
mod returns;
mod send;
mod sent;
mod task;

use std::sync::Arc;

use lapin::{Channel, options::ConfirmSelectOptions};
use tokio::sync::{mpsc, oneshot};

pub use error::PublishError;

use super::{BrokerAddress, ConnectError, Link};
use crate::wire::Message;
use task::{Limits, Request, WhileBlocked};

/// A handle of a publishing task; cheap to clone, usable from many tasks.
#[derive(Clone)]
pub struct Publisher {
    requests: mpsc::Sender<Request>,
}

impl Publisher {
    /// Opens its own connection, so that a blocked publisher never delays acks.
    ///
    /// When the connection is lost, every publish fails, and the caller must open a new publisher.
    pub async fn connect(address: &BrokerAddress, purpose: &str) -> Result<Self, ConnectError> {
        let link = Arc::new(Link::open(address, purpose).await?);
        let unreachable =
            |source| ConnectError::Unreachable { address: address.to_string(), source };
        let channel = confirming(&link).await.map_err(unreachable)?;
        let (requests, inbox) = mpsc::channel(task::WINDOW);
        let (hand_over, confirm) = (address.timing.hand_over, address.timing.confirm);
        let limits = Limits { hand_over, confirm, unconfirmed: task::WINDOW };
        tokio::spawn(task::serve(link, channel, inbox, WhileBlocked::Fail, limits));
        Ok(Self { requests })
    }

    /// Publishes a persistent message, mandatory if possible, and waits for the broker's confirm.
    ///
    /// # Errors
    /// See [`PublishError`]; only for `Unknown` the message may have arrived.
    pub fn publish(
        &self,
        message: Message,
    ) -> impl Future<Output = Result<(), PublishError>> + Send + '_ {
        // Boxed, because thousands may be in flight, and a future stores its arguments several times.
        let message = Box::new(message);
        async move {
            let (answer, result) = oneshot::channel();
            let message_id = message.message_id.clone();
            if let Some(reason) = message.unencodable() {
                return Err(PublishError::Unencodable { message_id, reason });
            }
            let gone = |message_id| PublishError::Disconnected {
                message_id,
                reason: "it was closed".to_owned(),
            };
            if self.requests.send(Request { message, answer }).await.is_err() {
                return Err(gone(message_id));
            }
            result.await.unwrap_or_else(|_| Err(gone(message_id)))
        }
    }

    /// Whether the connection is lost, so that a new publisher is needed.
    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }
}

/// Opens a channel with confirms.
async fn confirming(link: &Link) -> Result<Channel, lapin::Error> {
    let channel = link.channel().await?;
    link.answered(channel.confirm_select(ConfirmSelectOptions::default())).await?;
    Ok(channel)
}
