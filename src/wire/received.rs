//! A message that was delivered, and the copies a worker makes of it.

use std::sync::Arc;

use jiff::Timestamp;
use lapin::types::FieldTable;

use super::{
    headers,
    message::Message,
    notice::{DueNotice, MAX_BODY_BYTES, ReadNotice, Unreadable},
};
use crate::topology::{Timeout, Topology, route::Route};

/// A delivery. Anybody may have published it: nothing in it can be relied on.
#[derive(Clone, Debug, Default)]
pub struct Received {
    /// Its delivery tag, by which it is settled on its channel.
    pub tag: u64,
    /// Where it was published, or what dead-lettered it last: the broker says so.
    pub exchange: Arc<str>,
    /// As published, also after dead-lettering. Thousands are kept that have the same.
    pub routing_key: Arc<str>,
    /// `message-id`; a tutorial's publisher sets none.
    pub message_id: Option<Box<str>>,
    /// Whether it is persistent, as published: its `delivery-mode` is 2.
    pub persistent: bool,
    /// `content-type`; not to be relied on.
    pub content_type: Option<Arc<str>>,
    /// The publisher's, and what the broker added.
    pub headers: FieldTable,
    /// What only its publisher and its consumer look at; in a box, because thousands are kept that have none.
    pub properties: Option<Box<Properties>>,
    /// Empty where it was too large for a due notice: [`Received::body_left_out`].
    pub body: Vec<u8>,
}

impl Received {
    /// Reads the body, whose order id is where the topology says.
    pub fn notice(&self, topology: &Topology) -> Result<ReadNotice, Unreadable> {
        match self.body_left_out() {
            Some(size) => Err(Unreadable::TooLarge(size)),
            None => DueNotice::read(&self.body, &topology.order_id),
        }
    }

    /// The size of the body where it is not here; then no copy can be made. A forged header says nothing: only
    /// an empty body can have been left out, and only a large one is.
    pub fn body_left_out(&self) -> Option<usize> {
        let size = headers::body_left_out(&self.headers)?;
        (self.body.is_empty() && size > MAX_BODY_BYTES).then_some(size)
    }

    /// The same without the headers that no copy keeps, but for what was left out of it.
    pub fn without_needless_headers(self) -> Self {
        Self { headers: headers::kept(&self.headers), ..self }
    }

    /// About how many bytes of memory its body and headers take.
    pub fn bytes(&self) -> usize {
        self.body.len() + headers::bytes(&self.headers)
    }

    /// A copy that takes `route`, and then comes back.
    pub fn put_back(&self, route: Route, attempt: u32, guarded: u32) -> Message {
        let mut copy = self.copy();
        headers::set_tries(&mut copy.headers, attempt, guarded);
        copy.along(route)
    }

    /// A copy for the parking lot, which says why and where it comes from.
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

    /// A copy of a parked message that takes `route` as if it had never been tried.
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

    /// The tag distinguishes the copies of one channel.
    fn new_id(&self) -> String {
        let order = DueNotice::decode(&self.body).map(|notice| notice.order_id.to_string());
        format!("{}#{}", order.as_deref().unwrap_or("message"), self.tag)
    }
}

/// Properties as published; those that the program sets itself are not in it.
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
    /// Those of a copy: without `expiration`, which would end its wait early, or remove it from the parking lot; and without a
    /// direct reply-to, for which RabbitMQ ends the channel of a publisher that does not wait for replies; and without `user-id`,
    /// which the broker takes only from the user that it names.
    pub(super) fn of_copy(&self) -> Self {
        let reply_to = self.reply_to.clone().filter(|it| it != "amq.rabbitmq.reply-to");
        Self { expiration: None, reply_to, user_id: None, ..self.clone() }
    }
}
