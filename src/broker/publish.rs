//! Publishing with confirms: one connection, one channel, one task that owns it.
//!
//! lapin attaches a `basic.return` to the next confirm it hands out, which may belong to another message,
//! so a return is matched by `message-id`, and a success is told only after every confirm that came with
//! it has been looked at.

use std::{collections::HashMap, time::Duration};

use futures_util::{FutureExt, StreamExt, stream::FuturesUnordered};
use lapin::{
    BasicProperties, Channel, Confirmation, ErrorKind,
    message::Delivery,
    options::{BasicPublishOptions, ConfirmSelectOptions},
    protocol::{AMQPErrorKind, AMQPSoftError},
};
use tokio::{
    sync::{mpsc, oneshot},
    time::{MissedTickBehavior, error::Elapsed, timeout},
};

use super::{BrokerAddress, ConnectError, Link};
use crate::wire::Message;

/// Handing one message to the connection; longer means that the broker has blocked it.
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(5);
/// From publish to confirm. Under an alarm confirms simply stop coming.
const CONFIRM_TIMEOUT: Duration = Duration::from_secs(15);
/// How soon an idle publisher notices that its connection is gone.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Unconfirmed messages at once: enough to hide the round trip, few enough to tell what is unknown.
const WINDOW: usize = 1_024;
/// Persistent, so that it survives a restart of the broker (AMQP 0-9-1, `delivery-mode`).
const PERSISTENT: u8 = 2;

/// What can become of a message that was not confirmed.
#[derive(Clone, Debug, thiserror::Error)]
pub enum PublishError {
    /// No queue is bound for it; the broker gave it back.
    #[error(
        "message {message_id} was returned by exchange `{exchange}`: {reason} (routing key `{routing_key}`)"
    )]
    Returned {
        /// Which.
        message_id: String,
        /// Where it was published to.
        exchange: String,
        /// With which key.
        routing_key: String,
        /// The broker's reply text, e.g. `NO_ROUTE`.
        reason: String,
    },
    /// The broker took no responsibility (a queue is full or cannot be reached): it may be published again.
    #[error(
        "message {message_id} was refused by the broker (basic.nack): a queue is full or has no leader"
    )]
    Refused {
        /// Which.
        message_id: String,
    },
    /// The exchange is not there, so the broker closed the channel.
    #[error(
        "message {message_id} was not confirmed: the broker has no exchange `{exchange}`; declare the topology \
         with `overdue apply`"
    )]
    NoExchange {
        /// Which.
        message_id: String,
        /// Where it was published to.
        exchange: String,
    },
    /// The user may not write to the exchange, so the broker closed the channel.
    #[error("message {message_id} was not confirmed: {reason}")]
    NotPermitted {
        /// Which.
        message_id: String,
        /// What the broker said: which user, which exchange.
        reason: String,
    },
    /// The broker has blocked the connection; the message was not sent.
    #[error(
        "the broker has blocked this connection (memory or disk alarm); message {message_id} was not sent"
    )]
    Blocked {
        /// Which.
        message_id: String,
    },
    /// It was sent and nothing came back: it may or may not be there. Publishing it again is safe.
    #[error(
        "message {message_id} was sent and not confirmed: {reason}; it may or may not have arrived"
    )]
    Unknown {
        /// Which.
        message_id: String,
        /// What happened meanwhile.
        reason: String,
    },
    /// The connection or channel is gone; the message was not sent.
    #[error("the publishing connection is gone: {reason}; message {message_id} was not sent")]
    Disconnected {
        /// Which.
        message_id: String,
        /// What the broker or the client said.
        reason: String,
    },
}

/// A handle to the task that publishes; cheap to clone, usable from many tasks.
#[derive(Clone)]
pub struct Publisher {
    requests: mpsc::Sender<Request>,
}

struct Request {
    message: Message,
    answer: Answer,
}

type Answer = oneshot::Sender<Result<(), PublishError>>;

impl Publisher {
    /// Opens a connection of its own, so that a blocked publisher never holds up acks.
    ///
    /// It serves one connection: when that is gone every publish says so, and a new one is to be opened.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub async fn connect(address: &BrokerAddress, purpose: &str) -> Result<Self, ConnectError> {
        let link = Link::open(address, purpose).await?;
        let unreachable =
            |source| ConnectError::Unreachable { address: address.to_string(), source };
        let channel = link.channel().await.map_err(unreachable)?;
        channel.confirm_select(ConfirmSelectOptions::default()).await.map_err(unreachable)?;
        let (requests, inbox) = mpsc::channel(WINDOW);
        tokio::spawn(serve(link, channel, inbox));
        Ok(Self { requests })
    }

    /// Publishes persistent and mandatory, and waits until the broker has taken responsibility.
    ///
    /// # Errors
    /// See [`PublishError`]; only `Unknown` leaves open whether the message arrived.
    pub async fn publish(&self, message: Message) -> Result<(), PublishError> {
        let (answer, told) = oneshot::channel();
        let message_id = message.message_id.clone();
        let gone = |message_id| PublishError::Disconnected {
            message_id,
            reason: "it was closed".to_owned(),
        };
        if self.requests.send(Request { message, answer }).await.is_err() {
            return Err(gone(message_id));
        }
        told.await.unwrap_or_else(|_| Err(gone(message_id)))
    }

    /// Whether the connection is gone, so that a new publisher is needed.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.requests.is_closed()
    }
}

/// A message whose confirm has not been told yet.
struct Sent {
    message_id: String,
    exchange: String,
    routing_key: String,
    answer: Answer,
}

type Confirmed = (Sent, Told);
type Told = Result<Result<Confirmation, lapin::Error>, Elapsed>;

async fn serve(link: Link, channel: Channel, mut inbox: mpsc::Receiver<Request>) {
    let mut pending = FuturesUnordered::new();
    let mut returns = Returns::default();
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let alive = loop {
        tokio::select! {
            biased;
            Some(first) = pending.next(), if !pending.is_empty() => {
                let mut confirmed: Vec<Confirmed> = vec![first];
                while let Some(Some(next)) = pending.next().now_or_never() {
                    confirmed.push(next);
                }
                returns.tell(confirmed, link.is_blocked());
            }
            request = inbox.recv(), if pending.len() < WINDOW => {
                let Some(Request { message, answer }) = request else { break true };
                let sent = Sent::of(&message, answer);
                match send(&link, &channel, message).await {
                    Ok(confirm) => pending.push(async move { (sent, timeout(CONFIRM_TIMEOUT, confirm).await) }),
                    Err(error) => {
                        sent.tell(Err(error));
                        break false;
                    }
                }
            }
            _ = look.tick() => {}
        }
        if !channel.status().connected() {
            break false;
        }
    };
    inbox.close();
    // What waits in a blocked connection must not go out later, after the caller was told that it did not.
    let blocked = link.is_blocked();
    let link = alive.then_some(link);
    while let Some(Request { message, answer }) = inbox.recv().await {
        let reason = "it was lost".to_owned();
        let message_id = message.message_id.clone();
        Sent::of(&message, answer).tell(Err(PublishError::Disconnected { message_id, reason }));
    }
    while let Some(last) = pending.next().await {
        returns.tell(vec![last], blocked);
    }
    if let Some(link) = link {
        link.close().await;
    }
}

impl Sent {
    fn of(message: &Message, answer: Answer) -> Self {
        Self {
            message_id: message.message_id.clone(),
            exchange: message.exchange.clone(),
            routing_key: message.routing_key.clone(),
            answer,
        }
    }

    fn tell(self, result: Result<(), PublishError>) {
        // Nobody waits any more where the caller was dropped.
        let _told = self.answer.send(result);
    }

    fn key(&self) -> Key {
        (self.message_id.clone(), self.exchange.clone(), self.routing_key.clone())
    }

    fn returned(&self, reason: String) -> PublishError {
        PublishError::Returned {
            message_id: self.message_id.clone(),
            exchange: self.exchange.clone(),
            routing_key: self.routing_key.clone(),
            reason,
        }
    }

    fn unknown(&self, reason: String) -> PublishError {
        PublishError::Unknown { message_id: self.message_id.clone(), reason }
    }

    /// The channel is gone. The broker's text names the exchange that it was about; every other message in
    /// flight shares the channel, and may or may not have arrived.
    fn lost(&self, error: &lapin::Error) -> PublishError {
        let message_id = self.message_id.clone();
        if let ErrorKind::ProtocolError(amqp) = error.kind() {
            let reason = amqp.get_message().to_string();
            let mine = reason.contains(&format!("exchange '{}'", self.exchange));
            match amqp.kind() {
                AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND) if mine => {
                    return PublishError::NoExchange {
                        message_id,
                        exchange: self.exchange.clone(),
                    };
                }
                AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED) if mine => {
                    return PublishError::NotPermitted { message_id, reason };
                }
                _ => {}
            }
        }
        self.unknown(error.to_string())
    }
}

async fn send(
    link: &Link,
    channel: &Channel,
    message: Message,
) -> Result<lapin::PublisherConfirm, PublishError> {
    let Message { exchange, routing_key, message_id, content_type, headers, body } = message;
    let mut properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_message_id(message_id.as_str().into())
        .with_headers(headers);
    if let Some(content_type) = content_type {
        properties = properties.with_content_type(content_type.into());
    }
    // Mandatory: without it an unroutable message is acked and gone.
    let options = BasicPublishOptions { mandatory: true, ..BasicPublishOptions::default() };
    let publishing =
        channel.basic_publish(exchange.into(), routing_key.into(), options, &body, properties);
    match timeout(PUBLISH_TIMEOUT, publishing).await {
        Ok(Ok(confirm)) => Ok(confirm),
        Ok(Err(error)) => Err(PublishError::Disconnected { message_id, reason: error.to_string() }),
        Err(_elapsed) if link.is_blocked() => Err(PublishError::Blocked { message_id }),
        Err(_elapsed) => {
            let reason = "the connection took no frame for 5 s".to_owned();
            Err(PublishError::Unknown { message_id, reason })
        }
    }
}

/// Returned messages whose confirm has not been told yet.
#[derive(Default)]
struct Returns(HashMap<Key, Vec<String>>);

/// Messages with the same key share their fate, so it does not matter which of them a return is counted to.
type Key = (String, String, String);

impl Returns {
    /// Tells the results of one round, after every return that came with it was taken in.
    fn tell(&mut self, confirmed: Vec<Confirmed>, blocked: bool) {
        let results: Vec<_> = confirmed
            .into_iter()
            .map(|(sent, told)| (self.result(&sent, told, blocked), sent))
            .collect();
        for (result, sent) in results {
            let reason = self.0.get_mut(&sent.key()).and_then(Vec::pop);
            let result = match reason {
                Some(reason) => Err(sent.returned(reason)),
                None => result,
            };
            sent.tell(result);
        }
        self.0.retain(|_, reasons| !reasons.is_empty());
    }

    fn result(&mut self, sent: &Sent, told: Told, blocked: bool) -> Result<(), PublishError> {
        match told {
            Ok(Ok(confirmation)) => {
                let refused = confirmation.is_nack();
                if let Some(message) = confirmation.take_message() {
                    self.0
                        .entry(key_of(&message.delivery))
                        .or_default()
                        .push(message.reply_text.to_string());
                }
                if refused {
                    Err(PublishError::Refused { message_id: sent.message_id.clone() })
                } else {
                    Ok(())
                }
            }
            Ok(Err(error)) => Err(sent.lost(&error)),
            Err(_elapsed) if blocked => Err(sent.unknown(
                "the broker has blocked the connection (memory or disk alarm)".to_owned(),
            )),
            Err(_elapsed) => Err(sent.unknown("no confirm within 15 s".to_owned())),
        }
    }
}

fn key_of(returned: &Delivery) -> Key {
    let id = returned.properties.message_id().clone().unwrap_or_default();
    (id.to_string(), returned.exchange.to_string(), returned.routing_key.to_string())
}
