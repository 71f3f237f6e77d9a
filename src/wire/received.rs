//! A delivered message, and the copies that a worker makes of it.

use std::sync::Arc;

use jiff::Timestamp;
use lapin::types::FieldTable;

use super::{
    headers,
    message::Message,
    notice::{DueNotice, MAX_BODY_BYTES, ReadNotice, Unreadable},
};
use crate::topology::{Timeout, Topology, route::Route};

/// A delivery. Any publisher may have sent it: its content is not trusted.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Delivery tag, by which the worker settles the message on its channel.
    pub tag: u64,
    /// The exchange that it was published to, or that dead-lettered it last, as reported by the broker.
    pub exchange: Arc<str>,
    /// Routing key as published, also after dead-lettering. It is shared, because thousands of messages in memory have the
    /// same one.
    pub routing_key: Arc<str>,
    /// `message-id`; publishers that follow a tutorial set none.
    pub message_id: Option<Box<str>>,
    /// Whether the message was published persistent: its `delivery-mode` is 2.
    pub persistent: bool,
    /// `content-type`; it is not trusted.
    pub content_type: Option<Arc<str>>,
    /// The publisher's headers, and headers that the broker added.
    pub headers: FieldTable,
    /// Properties that only publisher and consumer use; boxed, because thousands of messages in memory have none.
    pub properties: Option<Box<Properties>>,
    /// Empty if the body was too large for a due notice: [`Received::body_left_out`].
    pub body: Vec<u8>,
}

impl Received {
    /// Reads the body; the topology defines where the order id is.
    pub fn notice(&self, topology: &Topology) -> Result<ReadNotice, Unreadable> {
        match self.body_left_out() {
            Some(size) => Err(Unreadable::TooLarge(size)),
            None => DueNotice::read(&self.body, &topology.order_id),
        }
    }

    /// The size of a body that was left out; without it no copy can be made. A forged header has no effect: only an empty
    /// body counts, with a size above the limit.
    pub fn body_left_out(&self) -> Option<usize> {
        let size = headers::body_left_out(&self.headers)?;
        (self.body.is_empty() && size > MAX_BODY_BYTES).then_some(size)
    }

    /// Drops the headers that no copy keeps. The header of a left-out body stays.
    pub fn without_needless_headers(self) -> Self {
        Self { headers: headers::kept(&self.headers), ..self }
    }

    /// About how many bytes of memory body and headers take.
    pub fn bytes(&self) -> usize {
        self.body.len() + headers::bytes(&self.headers)
    }

    /// A copy that waits along `route` and then returns to its business queue.
    pub fn put_back(&self, route: Route, attempt: u32, guarded: u32) -> Message {
        let mut copy = self.copy();
        headers::set_tries(&mut copy.headers, attempt, guarded);
        copy.along(route)
    }

    /// A copy for the parking lot, with the reason and the timeout.
    pub fn park(
        &self,
        topology: &Topology,
        timeout: &Timeout,
        reason: &str,
        at: Timestamp,
    ) -> Message {
        let mut copy = self.copy();
        headers::set_parked(&mut copy.headers, &timeout.name, reason, at);
        Message { exchange: topology.park_exchange(), ..copy }
    }

    /// A copy of a parked message that takes `route`; its retries are counted from 0.
    pub fn replayed(&self, route: Route) -> Message {
        Message { headers: headers::kept_of_replayed(&self.headers), ..self.copy() }.along(route)
    }

    fn copy(&self) -> Message {
        Message {
            exchange: String::new(),
            routing_key: self.routing_key.to_string(),
            message_id: self.message_id.as_deref().map_or_else(|| self.new_id(), str::to_owned),
            content_type: self.content_type.as_deref().map(str::to_owned),
            headers: headers::kept(&self.headers),
            properties: self.properties.as_deref().map(Properties::of_copy).unwrap_or_default(),
            body: self.body.clone(),
            needs_no_route: false,
        }
    }

    /// The delivery tag makes the ids of one channel distinct.
    fn new_id(&self) -> String {
        let order = DueNotice::decode(&self.body).map(|notice| notice.order_id.to_string());
        format!("{}#{}", order.as_deref().unwrap_or("message"), self.tag)
    }
}

/// Properties as published, without the properties that the program sets itself.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Properties {
    /// `content-encoding`.
    pub content_encoding: Option<String>,
    /// `priority`.
    pub priority: Option<u8>,
    /// `correlation-id`.
    pub correlation_id: Option<String>,
    /// `reply-to`.
    pub reply_to: Option<String>,
    /// `expiration`: milliseconds, as text.
    pub expiration: Option<String>,
    /// `timestamp`: seconds since 1970.
    pub timestamp_s: Option<u64>,
    /// `type`.
    pub kind: Option<String>,
    /// `app-id`.
    pub app_id: Option<String>,
    /// `user-id`: the broker has compared it with the user of the publisher's connection.
    pub user_id: Option<String>,
}

impl Properties {
    /// The properties of a copy. `expiration` would end its wait early, or remove it from the parking lot. RabbitMQ closes
    /// the channel of a publisher that sends a direct reply-to and does not wait for replies. The broker accepts `user-id`
    /// only from the user that it names.
    pub(super) fn of_copy(&self) -> Self {
        let reply_to = self.reply_to.clone().filter(|it| it != "amq.rabbitmq.reply-to");
        Self { expiration: None, reply_to, user_id: None, ..self.clone() }
    }
}
