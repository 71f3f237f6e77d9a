//! `[compat.x-delay]` replaces an exchange of the delayed message plugin; its publishers and consumers stay as they are.
//!
//! Publishers keep the exchange's name. Behind it a headers exchange reads `x-delay`. If the delay is a level, the message
//! waits in a queue of that level. Other messages go to a queue whose messages a worker delays. Due messages go to one exchange,
//! which routes like the plugin's exchange, by the routing key of the publisher.
//!
//! The headers exchange does not get the old name: a consumer that binds its queue there, without arguments, would get every
//! message at once. It would get the messages without a level from no other exchange.

use std::{collections::BTreeMap, time::Duration};

use super::{
    Timeout, Topology,
    file::{Gone, QueueType, RoutingType},
    level::{Level, Ttl},
    route::Route,
};
use crate::objects::{Argument, Arguments, Binding, Objects};

/// The last word of the routing key, and of the queue's name, of messages that the worker delays.
pub(crate) const WORD: &str = "compat";

/// An exchange of the plugin that the topology takes over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XDelay {
    /// The exchange name that publishers use.
    pub exchange: String,
    /// How the exchange routes due messages: the plugin's argument `x-delayed-type`.
    pub routing: RoutingType,
}

impl RoutingType {
    /// The name of the exchange type.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Topic => "topic",
            Self::Fanout => "fanout",
            Self::Headers => "headers",
        }
    }

    /// The type of the exchange with the old name, and the binding key that takes every message. A consumer that still binds
    /// its queue there gets early copies of the messages it is bound for, and no others.
    pub(super) const fn entry(self) -> (&'static str, &'static str) {
        match self {
            Self::Direct | Self::Topic => ("topic", "#"),
            Self::Fanout => ("fanout", ""),
            Self::Headers => ("headers", ""),
        }
    }
}

/// The longest `x-delay` in milliseconds; the plugin routes longer ones at once.
const MAX_X_DELAY_MS: u64 = u32::MAX as u64;

impl Topology {
    /// `orders.compat.in`, the headers exchange behind the old name.
    pub fn compat_in_exchange(&self) -> String {
        format!("{}.{WORD}.in", self.name)
    }

    /// `orders.compat.rest`, which gets the messages that no level takes.
    pub fn compat_rest_exchange(&self) -> String {
        format!("{}.{WORD}.rest", self.name)
    }

    /// `orders.compat.due`, which routes due messages; consumers bind their queues to it.
    pub fn compat_due_exchange(&self) -> String {
        format!("{}.{WORD}.due", self.name)
    }

    /// `orders.compat`, whose messages a worker delays.
    pub fn compat_queue(&self) -> String {
        format!("{}.{WORD}", self.name)
    }

    /// `orders.compat.delay.30m`, where messages with the `x-delay` of a level wait.
    pub fn compat_delay_queue(&self, level: &Level) -> String {
        format!("{}.{WORD}.delay.{}", self.name, level.name())
    }

    /// The levels that an `x-delay` can express.
    pub fn compat_levels(&self) -> impl Iterator<Item = &Level> {
        let levels = self.levels.iter().filter(|_| self.compat.is_some());
        levels.filter(|level| level.ttl().as_millis() <= MAX_X_DELAY_MS)
    }

    /// The timeout of messages that a worker delays; it is not in the file.
    pub(crate) fn compat_timeout(&self) -> Option<Timeout> {
        let after = Level::of(Ttl::SHORTEST);
        self.compat.as_ref().map(|_| Timeout {
            name: WORD.to_owned(),
            after,
            after_by_category: BTreeMap::new(),
            effect: String::new(),
            shards: None,
            gone: Gone::Park,
        })
    }

    /// The route back into the queue of messages that a worker delays, without a delay.
    pub(crate) fn compat_again(&self) -> Route {
        Route {
            exchange: self.compat_rest_exchange(),
            routing_key: WORD.to_owned(),
            x_delay: None,
            holds: Duration::ZERO,
            early: Duration::ZERO,
            queues: Vec::new(),
        }
    }

    /// Whether a foreign queue or exchange gets messages through this binding before they are due.
    pub fn is_early(&self, binding: &Binding) -> bool {
        let Some(compat) = &self.compat else { return false };
        let ours = !binding.to_queue && binding.destination == self.compat_in_exchange();
        binding.source == compat.exchange && !ours
    }

    /// Adds the objects that replace an exchange of the plugin.
    pub(super) fn compat_side(&self, objects: &mut Objects) {
        let Some(compat) = &self.compat else { return };
        let (entry, rest) = (self.compat_in_exchange(), self.compat_rest_exchange());
        let (due, park) = (self.compat_due_exchange(), self.park_exchange());
        let (kind, all) = compat.routing.entry();
        objects.exchange(&due, compat.routing.as_str(), Some(&park));
        objects.exchange(&rest, "fanout", Some(&park));
        objects.exchange(&entry, "headers", Some(&rest));
        // The alternate exchange: without the binding, messages take the same route.
        objects.exchange(&compat.exchange, kind, Some(&entry));
        objects.bind_exchange(&compat.exchange, &entry, all);
        self.compat_rest(objects);
        for level in self.compat_levels() {
            let mut arguments = self.dead_lettering(&due);
            let ttl_ms = i64::try_from(level.ttl().as_millis()).unwrap_or(i64::MAX);
            arguments.push(("x-message-ttl", Argument::Integer(ttl_ms)));
            let queue = self.compat_delay_queue(level);
            objects.queue(self, &queue, arguments);
            objects.bindings.insert(by_x_delay(&entry, queue, ttl_ms));
        }
    }

    fn compat_rest(&self, objects: &mut Objects) {
        let queue = self.compat_queue();
        let mut arguments = self.dead_lettering(&self.park_exchange());
        if self.queue_type == QueueType::Quorum {
            arguments.push(("x-delivery-limit", Argument::Integer(self.delivery_limit)));
        }
        objects.queue(self, &queue, arguments);
        objects.bind(&self.compat_rest_exchange(), &queue, "");
        objects.bind(&self.due_exchange(), &queue, &format!("#.{WORD}"));
    }
}

/// The binding uses `all-with-x` because `all` ignores headers whose names begin with `x-`.
fn by_x_delay(source: &str, queue: String, ms: i64) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: queue,
        to_queue: true,
        routing_key: String::new(),
        arguments: Arguments::from([
            ("x-delay".to_owned(), Argument::Integer(ms)),
            ("x-match".to_owned(), "all-with-x".into()),
        ]),
    }
}
