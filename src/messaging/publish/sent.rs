//! A message that was handed to the connection, and the channel for its result.

use std::time::Duration;

use lapin::{
    Confirmation, ErrorKind,
    protocol::{AMQPErrorKind, AMQPSoftError},
};
use tokio::sync::oneshot;

use super::error::PublishError;
use crate::wire::Message;

pub(super) type Answer = oneshot::Sender<Result<(), PublishError>>;

/// The answer for a message: a confirm, an error of the channel, or the length of the wait.
pub(super) type Confirm = Result<Result<Confirmation, lapin::Error>, Duration>;

pub(super) type Confirmed = (Sent, Confirm);

/// `message-id`, exchange and routing key. Messages with equal keys get the same result: a return may be matched to any of them.
pub(super) type Key = (String, String, String);

/// The broker's text before the key that a topic permission refuses. The text is truncated after 252 bytes, and then ends in
/// dots.
const REFUSED_KEY: &str = "access to topic '";

/// Whether the broker's text after [`REFUSED_KEY`] is about this routing key and exchange. A key may contain parts of such a text.
fn refuses_key(text: &str, routing_key: &str, exchange: &str) -> bool {
    let expected = format!("{routing_key}' in exchange '{exchange}'");
    let cut = text.strip_suffix("...").unwrap_or(text);
    // All such texts have the same end after the exchange.
    text.strip_prefix(&expected)
        .is_some_and(|rest| !rest.contains(&format!(" in exchange '{exchange}'")))
        || cut.len() < expected.len() && cut.len() < text.len() && expected.starts_with(cut)
}

/// A message whose result was not sent yet.
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
        // The receiver is gone if the caller was dropped.
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

    pub(super) fn refused(&self) -> PublishError {
        let (message_id, exchange, routing_key) = self.key();
        PublishError::Refused { message_id, exchange, routing_key }
    }

    pub(super) fn unknown(&self, reason: String) -> PublishError {
        let message_id = self.message_id.clone();
        PublishError::Unknown { message_id, reason, channel_ended: false }
    }

    /// The error after the channel was closed. The broker's text names the exchange at fault; every other message in flight
    /// shares the channel, and may have arrived.
    pub(super) fn lost(&self, error: &lapin::Error) -> PublishError {
        let ErrorKind::ProtocolError(amqp) = error.kind() else {
            return self.unknown(error.to_string());
        };
        let (message_id, reason) = (self.message_id.clone(), amqp.get_message().to_string());
        let names_exchange = reason.contains(&format!("exchange '{}'", self.exchange));
        let key = reason.split_once(REFUSED_KEY).map(|(_, text)| text);
        match (amqp.kind(), key) {
            (AMQPErrorKind::Soft(AMQPSoftError::NOTFOUND), _) if names_exchange => {
                PublishError::NoExchange { message_id, exchange: self.exchange.clone() }
            }
            (AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED), None) if names_exchange => {
                PublishError::NotPermitted { message_id, reason }
            }
            (AMQPErrorKind::Soft(AMQPSoftError::ACCESSREFUSED), Some(text))
                if refuses_key(text, &self.routing_key, &self.exchange) =>
            {
                PublishError::RoutingKeyNotPermitted { message_id, reason }
            }
            (kind, _) => {
                let channel_ended = matches!(kind, AMQPErrorKind::Soft(_));
                PublishError::Unknown { message_id, reason: error.to_string(), channel_ended }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_about_a_key_is_about_no_other() {
        let about = |key: &str| format!("{key}' in exchange 'orders.events' in vhost '/' refused");
        let (odd, long) = ("order.closed' in exchange 'z", "k".repeat(230));
        let odder = "order.closed' in exchange 'orders.events";
        let keys = ["order.closed", odd, odder, "order", &long];
        for said in keys {
            let whole = about(said);
            let meant: Vec<_> =
                keys.iter().filter(|key| refuses_key(&whole, key, "orders.events")).collect();
            assert_eq!(meant, [&said]);
        }
        let cut = |at: usize| format!("{}...", &about(&long)[..at]);
        for at in [10, 229, 230, 235, 250] {
            let text = cut(at);
            assert!(refuses_key(&text, &long, "orders.events"), "cut at {at}");
            assert!(!refuses_key(&text, "order.closed", "orders.events"));
        }
        assert!(!refuses_key(&about("order.closed"), "order.closed", "others"));
    }
}
