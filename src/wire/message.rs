//! A message to publish, and the form of each of the program's messages.

use jiff::Timestamp;
use lapin::types::{AMQPValue, FieldTable};
use serde_json::Value;

use super::{headers, notice::DueNotice, received::Properties};
use crate::topology::route::Route;

/// The `delivery-mode` of AMQP 0-9-1 with which a message survives a restart of the broker.
pub(crate) const PERSISTENT: u8 = 2;
/// Bytes of a short string of AMQP 0-9-1.
const MAX_SHORT_BYTES: usize = 255;

/// A message to publish. It is published persistent, and mandatory unless it needs no route.
#[derive(Clone, Debug, Default)]
pub struct Message {
    /// Empty for the default exchange, which routes to the queue with the name of the routing key.
    pub exchange: String,
    /// At most 255 bytes.
    pub routing_key: String,
    /// `message-id`, unique among the unconfirmed messages, because a return is matched by it; at most 255 bytes. An empty
    /// one is not sent.
    pub message_id: String,
    /// `content-type`, where known.
    pub content_type: Option<String>,
    /// Headers; together with the other properties they must fit into one frame.
    pub headers: FieldTable,
    /// Properties that are copied unchanged.
    pub properties: Properties,
    /// At most 16 MiB by RabbitMQ's default (`max_message_size`).
    pub body: Vec<u8>,
    /// Whether the message may be unroutable, and is therefore not mandatory. Events may have no subscriber, and an exchange
    /// that delays a message before it routes returns each mandatory message.
    pub needs_no_route: bool,
}

impl Message {
    /// A message with a JSON body and no headers.
    pub fn json(exchange: String, routing_key: String, message_id: String, body: &Value) -> Self {
        Self {
            exchange,
            routing_key,
            message_id,
            content_type: Some("application/json".to_owned()),
            headers: FieldTable::default(),
            properties: Properties::default(),
            body: body.to_string().into_bytes(),
            needs_no_route: false,
        }
    }

    /// A due notice as JSON.
    pub fn notice(route: Route, notice: &DueNotice) -> Self {
        let content_type = Some("application/json".to_owned());
        let message_id = notice.message_id();
        Self { message_id, content_type, body: notice.encode(), ..Self::default() }.along(route)
    }

    /// A due notice as the bare order id; its deadline is only in the `message-id`.
    pub fn bare_order_id(route: Route, notice: &DueNotice) -> Self {
        let content_type = Some("text/plain".to_owned());
        let body = notice.order_id.as_str().as_bytes().to_vec();
        let message_id = notice.message_id();
        Self { message_id, content_type, body, ..Self::default() }.along(route)
    }

    /// Routes the message by `route`. The delayed message plugin returns each mandatory message that it delays, as if it
    /// were unroutable.
    pub(super) fn along(mut self, route: Route) -> Self {
        headers::set_delay(&mut self.headers, route.x_delay);
        Self {
            exchange: route.exchange,
            routing_key: route.routing_key,
            needs_no_route: route.x_delay.is_some(),
            ..self
        }
    }

    /// An event of an order. A subscriber recognises a duplicate by the `message-id`: row of the outbox, time in
    /// microseconds, order. The row alone is not unique: after a failover or a restore, row numbers are used again.
    pub fn event(exchange: String, event: &str, id: i64, order_id: &str, at: Timestamp) -> Self {
        let body = serde_json::json!({ "order_id": order_id, "at": at });
        let mut message_id = format!("{id}@{}/{order_id}", at.as_microsecond());
        message_id.truncate(message_id.floor_char_boundary(MAX_SHORT_BYTES));
        let message = Self::json(exchange, event.to_owned(), message_id, &body);
        Self { needs_no_route: true, ..message }
    }

    /// Why the message cannot be sent, if so: a text has more than 255 bytes, or RabbitMQ would close the publisher's channel
    /// because of it.
    pub fn unencodable(&self) -> Option<String> {
        let Properties {
            content_encoding, correlation_id, reply_to, expiration, kind, app_id, ..
        } = &self.properties;
        let texts = [
            ("exchange", Some(&self.exchange)),
            ("routing key", Some(&self.routing_key)),
            ("message-id", Some(&self.message_id)),
            ("content-type", self.content_type.as_ref()),
            ("content-encoding", content_encoding.as_ref()),
            ("correlation-id", correlation_id.as_ref()),
            ("reply-to", reply_to.as_ref()),
            ("expiration", expiration.as_ref()),
            ("type", kind.as_ref()),
            ("app-id", app_id.as_ref()),
        ];
        let texts = texts.into_iter().filter_map(|(name, text)| Some((name, text?)));
        for (name, text) in texts {
            if text.len() > MAX_SHORT_BYTES {
                return Some(format!(
                    "its {name} has {} bytes, more than {MAX_SHORT_BYTES}",
                    text.len()
                ));
            }
        }
        if let Some(text) = expiration.as_ref().filter(|text| !is_expiration(text)) {
            return Some(format!("its expiration is {text:?}, not a number of milliseconds"));
        }
        let header = headers::OTHER_ROUTES.into_iter().find(|name| {
            let value = self.headers.inner().get(*name);
            value.is_some_and(|value| !matches!(value, AMQPValue::FieldArray(_)))
        });
        header.map(|name| format!("its header {name} is not an array"))
    }

    /// A canary. It is not a due notice: a worker that does not know canaries parks it and touches no order.
    pub fn canary(route: Route, id: &str) -> Self {
        let body = serde_json::json!({ "canary": id });
        let mut message = Self::json(String::new(), String::new(), id.to_owned(), &body);
        headers::set_canary(&mut message.headers, id);
        message.along(route)
    }
}

/// Whether RabbitMQ accepts the text as `expiration`.
fn is_expiration(text: &str) -> bool {
    text.parse::<i128>().is_ok_and(|ms| u64::try_from(ms).is_ok())
}
