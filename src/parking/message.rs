//! A message in the parking lot.

use std::{
    collections::BTreeSet,
    fmt,
    hash::{DefaultHasher, Hash as _, Hasher as _},
    time::Duration,
};

use jiff::Timestamp;

use super::{cause::Cause, selection::Selection};
use crate::{
    order::OrderId,
    text::{counted, length},
    topology::{Timeout, Topology},
    wire::{Death, Received},
};

/// Orders of a filter that a line names at most.
const SHOWN: usize = 20;

/// A message in the parking lot, as far as it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedMessage {
    /// Order of the message; none if the body cannot be read.
    pub order: Option<OrderId>,
    /// Timeout of the message; the topology may have lost it since.
    pub timeout: Option<String>,
    /// Why the message was parked.
    pub cause: Cause,
    /// When the message was parked, if that is known.
    pub parked_at: Option<Timestamp>,
    /// Retries before the message was parked.
    pub attempts: u32,
    /// Routing key as published.
    pub routing_key: String,
    /// `message-id` of the message.
    pub message_id: Option<String>,
    /// Bytes of the body, also if the body was left out.
    pub body_bytes: usize,
    /// Hash by which a later reading recognizes the message; equal messages have the same hash.
    pub print: u64,
}

impl ParkedMessage {
    /// Reads a message that was taken from a parking lot of `topology`.
    pub fn read(topology: &Topology, received: &Received) -> Self {
        let parked = received.parked();
        let cause = Cause::of(topology, received, &parked);
        let timeout =
            timeout_of(topology, received, parked.timeout.as_deref(), parked.death.as_ref());
        let mut print = DefaultHasher::new();
        (&received.routing_key, &received.message_id, &received.body).hash(&mut print);
        (parked.at, parked.attempts, cause.to_string(), &timeout).hash(&mut print);
        Self {
            print: print.finish(),
            order: received.notice(topology).ok().map(|read| read.notice.order_id),
            cause,
            timeout,
            parked_at: parked.at,
            attempts: parked.attempts,
            routing_key: received.routing_key.to_string(),
            message_id: received.message_id.as_deref().map(str::to_owned),
            body_bytes: received.body_left_out().unwrap_or(received.body.len()),
        }
    }

    /// Name of the message in a line: its order id, or `(unreadable)`.
    pub fn label(&self) -> &str {
        self.order.as_ref().map_or("(unreadable)", OrderId::as_str)
    }

    /// The rule of the topology that the message is for.
    pub fn rule<'a>(&self, topology: &'a Topology) -> Option<&'a Timeout> {
        topology.timeout(self.timeout.as_deref()?)
    }
}

/// The timeout that the worker wrote, or the timeout of the business queue, or the last word of the routing key.
fn timeout_of(
    topology: &Topology,
    received: &Received,
    written: Option<&str>,
    death: Option<&Death>,
) -> Option<String> {
    let of_queue = |queue: &str| {
        let mut timeouts = topology.timeouts.iter();
        let is_of = |rule: &&Timeout| {
            let rest = queue.strip_prefix(&topology.business_queue(rule));
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
        };
        timeouts.find(is_of).map(|rule| rule.name.clone())
    };
    let last_word = received.routing_key.rsplit('.').next().filter(|word| !word.is_empty());
    written
        .map(str::to_owned)
        .or_else(|| of_queue(&death?.queue))
        .or_else(|| last_word.map(str::to_owned))
}

/// Conditions of a filter: a message must meet all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// The reason contains this text; upper and lower case are equal.
    pub reason: Option<String>,
    /// The message is for this timeout.
    pub timeout: Option<String>,
    /// The message is about one of these orders, as spelled here or as `uuid`; any order if the set is empty.
    pub orders: BTreeSet<String>,
    /// The message was parked at least this time ago.
    pub older_than: Option<Duration>,
    /// The message was parked less than this time ago.
    pub newer_than: Option<Duration>,
    /// The message is selected here, and no other condition counts; any message if the selection is empty.
    pub selected: Selection,
}

impl Filter {
    /// Whether the filter takes every message.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether the filter takes `message`. A message of unknown age is neither old nor new.
    pub fn takes(&self, message: &ParkedMessage, now: Timestamp) -> bool {
        if !self.selected.is_empty() {
            return self.selected.contains(message.print);
        }
        let age = || {
            let age = now.duration_since(message.parked_at?);
            // The clock is behind: the message counts as new.
            Some(Duration::try_from(age).unwrap_or_default())
        };
        let is_named = |id: &OrderId| {
            self.orders.contains(id.as_str())
                || id.as_uuid().is_some_and(|uuid| self.orders.contains(&uuid))
        };
        self.reason.as_deref().is_none_or(|text| has(&message.cause.to_string(), text))
            && self.timeout.as_ref().is_none_or(|name| message.timeout.as_ref() == Some(name))
            && (self.orders.is_empty() || message.order.as_ref().is_some_and(is_named))
            && self.older_than.is_none_or(|bound| age().is_some_and(|age| age >= bound))
            && self.newer_than.is_none_or(|bound| age().is_some_and(|age| age < bound))
    }

    /// Whether the filter takes `message`, one of many. `left` has the selected messages that have not come yet:
    /// of equal messages, as many are taken as were selected.
    pub fn takes_next(
        &self,
        message: &ParkedMessage,
        now: Timestamp,
        left: &mut Selection,
    ) -> bool {
        self.takes(message, now) && (self.selected.is_empty() || left.remove(message.print))
    }
}

/// `timeout unpaid, reason with "does not know"`; `everything` if the filter has no condition.
impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let age = |name: &str, bound: &Option<Duration>| {
            bound.map(|bound| format!("parked {name} than {} ago", length(bound)))
        };
        let orders: Vec<&str> = self.orders.iter().take(SHOWN).map(String::as_str).collect();
        let more = self.orders.len().saturating_sub(SHOWN);
        let more = if more > 0 { format!(" and {more} more") } else { String::new() };
        let orders = (!orders.is_empty()).then(|| format!("order {}{more}", orders.join(" ")));
        let selected = self.selected.count();
        let conditions = [
            (selected > 0).then(|| counted(selected, "selected message")),
            self.timeout.as_ref().map(|name| format!("timeout {name}")),
            self.reason.as_ref().map(|text| format!("reason with {text:?}")),
            orders,
            age("longer", &self.older_than),
            age("less", &self.newer_than),
        ];
        let conditions: Vec<String> = conditions.into_iter().flatten().collect();
        f.write_str(if conditions.is_empty() { "everything" } else { "" })?;
        f.write_str(&conditions.join(", "))
    }
}

fn has(reason: &str, text: &str) -> bool {
    reason.to_lowercase().contains(&text.to_lowercase())
}
