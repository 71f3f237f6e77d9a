//! A message that was handed to the connection, and who waits for its confirm.

use std::time::Duration;

use lapin::{
    Confirmation, ErrorKind,
    protocol::{AMQPErrorKind, AMQPSoftError},
};
use tokio::sync::oneshot;

use super::error::PublishError;
use crate::wire::Message;

/// From publish to confirm. Under an alarm confirms simply stop coming.
pub(super) const CONFIRM_TIMEOUT: Duration = Duration::from_secs(15);

pub(super) type Answer = oneshot::Sender<Result<(), PublishError>>;

/// What came for a message: a confirm, an error of the channel, or nothing for so long.
pub(super) type Confirm = Result<Result<Confirmation, lapin::Error>, Duration>;

pub(super) type Confirmed = (Sent, Confirm);

/// Messages with the same key share their fate, so it does not matter which of them a return is counted to.
pub(super) type Key = (String, String, String);

/// A routing key in a text of the broker, which is cut after 252 bytes and then ends in dots.
struct NamedKey<'a> {
    text: &'a str,
    is_whole: bool,
}

impl NamedKey<'_> {
    fn is_prefix_of(&self, key: &str) -> bool {
        if self.is_whole { key == self.text } else { key.starts_with(self.text) }
    }
}

/// The routing key that a topic permission refuses.
fn refused_key(reason: &str) -> Option<NamedKey<'_>> {
    let (_, rest) = reason.split_once("access to topic '")?;
    Some(match rest.split_once("' in exchange '") {
        Some((text, _)) => NamedKey { text, is_whole: true },
        None => NamedKey { text: rest.trim_end_matches('.'), is_whole: false },
    })
}

/// A message whose confirm has not been passed on yet.
pub(super) struct Sent {
    pub(super) message_id: String,
    exchange: String,
    routing_key: String,
    answer: Answer,
}

impl Sent {
    pub(super) fn of(message: &Message, answer: Answer) -> Self {
        Self {
            message_id: message.message_id.clone(),
            exchange: message.exchange.clone(),
            routing_key: message.routing_key.clone(),
            answer,
        }
    }

    pub(super) fn answer(self, result: Result<(), PublishError>) {
        // Nobody waits any more where the caller was dropped.
        let _received = self.answer.send(result);
    }

    pub(super) fn key(&self) -> Key {
        (self.message_id.clone(), self.exchange.clone(), self.routing_key.clone())
    }

    pub(super) fn returned(&self, reason: String) -> PublishError {
        PublishError::Returned {
            message_id: self.message_id.clone(),
            exchange: self.exchange.clone(),
            routing_key: self.routing_key.clone(),
            reason,
        }
    }

    pub(super) fn unknown(&self, reason: String) -> PublishError {
        PublishError::Unknown { message_id: self.message_id.clone(), reason }
    }

    /// The channel is gone. The broker's text names the exchange that it was about; every other message in
    /// flight shares the channel, and may or may not have arrived.
    pub(super) fn lost(&self, error: &lapin::Error) -> PublishError {
        let message_id = self.message_id.clone();
        if let ErrorKind::ProtocolError(amqp) = error.kind() {
            let reason = amqp.get_message().to_string();
            // A text that was cut names no exchange any more.
            let key = refused_key(&reason);
            let mine = reason.contains(&format!("exchange '{}'", self.exchange))
                || key.as_ref().is_some_and(|key| !key.is_whole);
            match (amqp.kind(), key) {
                (AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND), _) if mine => {
                    return PublishError::NoExchange {
                        message_id,
                        exchange: self.exchange.clone(),
                    };
                }
                (AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED), None) if mine => {
                    return PublishError::NotPermitted { message_id, reason };
                }
                (AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED), Some(key))
                    if mine && key.is_prefix_of(&self.routing_key) =>
                {
                    return PublishError::RoutingKeyNotPermitted { message_id, reason };
                }
                _ => {}
            }
        }
        self.unknown(error.to_string())
    }
}
