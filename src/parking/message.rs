//! One message in the parking lot.

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

/// Orders of a filter that a line names.
const SHOWN: usize = 20;

/// What is to be known of a message in the parking lot.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParkedMessage {
    /// Which order it is about; none where the body cannot be read.
    pub order: Option<OrderId>,
    /// The timeout that it is for; the topology may not have it any more.
    pub timeout: Option<String>,
    /// Why it is here.
    pub cause: Cause,
    /// Since when, where that is known.
    pub parked_at: Option<Timestamp>,
    /// How often it was tried before.
    pub attempts: u32,
    /// As published.
    pub routing_key: String,
    /// `message-id`.
    pub message_id: Option<String>,
    /// Bytes of its body.
    pub body_bytes: usize,
    /// What it is recognized by in a later reading; equal ones have the same.
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

    /// What it is called in a line.
    pub fn label(&self) -> &str {
        self.order.as_ref().map_or("(unreadable)", OrderId::as_str)
    }

    /// The rule of the topology that it is for.
    pub fn rule<'a>(&self, topology: &'a Topology) -> Option<&'a Timeout> {
        topology.timeout(self.timeout.as_deref()?)
    }
}

/// What the worker wrote, or the business queue it was in, or the last word of its routing key.
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

/// Conditions that a message has to meet, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    /// Its reason has this in it, whatever the case.
    pub reason: Option<String>,
    /// It is for this timeout.
    pub timeout: Option<String>,
    /// It is about one of these orders, as it is spelled here or as `uuid`; of any order where there is none.
    pub orders: BTreeSet<String>,
    /// It was parked longer ago.
    pub older_than: Option<Duration>,
    /// It was parked since.
    pub newer_than: Option<Duration>,
    /// It is one of these, and then nothing else matters; any where there is none.
    pub selected: Selection,
}

impl Filter {
    /// Whether everything is asked for.
    pub fn is_open(&self) -> bool {
        *self == Self::default()
    }

    /// Whether `message` is asked for. One of unknown age is neither old nor new.
    pub fn takes(&self, message: &ParkedMessage, now: Timestamp) -> bool {
        if !self.selected.is_empty() {
            return self.selected.contains(message.print);
        }
        let age = || {
            let age = now.duration_since(message.parked_at?);
            // A clock that is behind makes it new.
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

    /// The same where several come: `left` are those selected that have not, so of equal ones as many are taken as were selected.
    pub fn takes_next(
        &self,
        message: &ParkedMessage,
        now: Timestamp,
        left: &mut Selection,
    ) -> bool {
        self.takes(message, now) && (self.selected.is_empty() || left.remove(message.print))
    }
}

/// `timeout unpaid, reason with "does not know"`; `everything` where there is no condition.
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
