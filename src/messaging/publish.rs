//! Publishing with confirms: one connection, and a task for each channel, which owns it.
//!
//! lapin attaches a `basic.return` to the next confirm it hands out, which may belong to another message,
//! so a return is matched by `message-id`, and a success is reported only after every confirm that came with
//! it has been looked at.

mod error;
pub(crate) mod outlet;
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

/// A handle to the task that publishes; cheap to clone, usable from many tasks.
#[derive(Clone)]
pub struct Publisher {
    requests: mpsc::Sender<Request>,
}

impl Publisher {
    /// Opens a connection of its own, so that a blocked publisher never holds up acks.
    ///
    /// It serves one connection: when that is gone every publish says so, and a new one is to be opened.
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

    /// Publishes persistent, mandatory where that is possible, and waits until the broker has taken responsibility.
    ///
    /// # Errors
    /// See [`PublishError`]; only `Unknown` leaves open whether the message arrived.
    pub fn publish(
        &self,
        message: Message,
    ) -> impl Future<Output = Result<(), PublishError>> + Send + '_ {
        // Thousands may be on their way at once, and a future keeps what it is given several times.
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

    /// Whether the connection is gone, so that a new publisher is needed.
    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }
}

/// A channel with confirms.
async fn confirming(link: &Link) -> Result<Channel, lapin::Error> {
    let channel = link.channel().await?;
    link.answered(channel.confirm_select(ConfirmSelectOptions::default())).await?;
    Ok(channel)
}
