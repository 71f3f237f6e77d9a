//! A reading of a broker, as data: the objects of one virtual host, and the messages in its queues.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    objects::Objects,
    topology::{Topology, strategy::DELAYED_EXCHANGE_TYPE},
};

/// Dead letters of a quorum queue that are published at the same time, unless `dead_letter_worker_consumer_prefetch` is larger
/// (<https://www.rabbitmq.com/docs/quorum-queues#activating-at-least-once-dead-lettering>).
pub(crate) const SLOTS: u64 = 32;

/// One reading of a virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The virtual host that was read.
    pub virtual_host: String,
    /// Exchanges, queues, bindings.
    pub objects: Objects,
    /// Messages in each queue: ready, unacked, delayed, and dead letters that no queue has confirmed. Up to ten seconds old: a
    /// queue reports every five seconds, and the reports are collected every five. A queue without a report has no entry.
    pub messages: BTreeMap<String, u64>,
    /// Messages in each exchange of the delayed message plugin, on the node that answered; other nodes can hold more.
    pub delayed: BTreeMap<String, u64>,
    /// Queues with a consumer, up to ten seconds old.
    pub consumed: BTreeSet<String>,
    /// Foreign consumers of each queue that a plan takes out of use; a queue without foreign consumers has no entry.
    pub foreign_consumers: BTreeMap<String, u64>,
    /// Policies of the virtual host.
    pub policies: Vec<Policy>,
    /// Operator policies of the virtual host; empty if this user may not see them.
    pub operator_policies: Vec<Policy>,
    /// The time of the reading; `None` if no plan depends on it.
    pub clock: Option<Clock>,
}

/// The time of a reading by the broker's clock, because the next apply may run on another machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Clock {
    /// Seconds since 1970.
    pub now_s: u64,
    /// Seconds for which the queue of a removed timeout stays bound after the longest way to it.
    pub stays_s: u64,
}

impl Snapshot {
    /// The broker right after `topology` was applied to an empty virtual host.
    pub fn of(topology: &Topology) -> Self {
        let objects = topology.objects();
        let messages = objects.queues.keys().map(|queue| (queue.clone(), 0)).collect();
        let exchanges = objects.exchanges.values();
        let holding = exchanges.filter(|exchange| exchange.kind == DELAYED_EXCHANGE_TYPE);
        let delayed = holding.map(|exchange| (exchange.name.clone(), 0)).collect();
        Self { objects, messages, delayed, ..Self::default() }
    }

    /// Messages in `queue`; `None` if the broker does not report them, which does not mean zero.
    pub fn messages_in(&self, queue: &str) -> Option<u64> {
        self.messages.get(queue).copied()
    }

    /// Raises the count of a queue to the number of ready messages that the queue itself reports.
    pub fn at_least(&mut self, queue: &str, ready: u64) {
        if ready > 0 {
            let messages = self.messages.entry(queue.to_owned()).or_default();
            *messages = ready.max(*messages);
        }
    }
}

/// Statistics of a queue from the management API, up to ten seconds old. `None` if the broker has no value yet, e.g. after its
/// start, or collects no statistics.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct QueueStats {
    /// The queue.
    pub name: String,
    /// `quorum`, `classic`, …
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Ready, unacked and delayed messages, and dead letters that no queue has confirmed.
    pub messages: Option<u64>,
    /// Messages that wait for a consumer or for their TTL.
    pub messages_ready: Option<u64>,
    /// Messages that were delivered and not acked.
    pub messages_unacknowledged: Option<u64>,
    /// Delayed messages, which AMQP does not count: requeued under a policy with delayed retry (4.3 and later), or published with
    /// the header `x-opt-delivery-time` (4.4).
    #[serde(default, deserialize_with = "number")]
    pub messages_delayed: Option<u64>,
    /// When the first delayed message becomes ready, in milliseconds since 1970; `None` without delayed messages, and before 4.3.
    #[serde(default, deserialize_with = "number")]
    pub next_delayed_at: Option<u64>,
    /// When the last delayed message becomes ready, in milliseconds since 1970.
    #[serde(default, deserialize_with = "number")]
    pub last_delayed_at: Option<u64>,
    /// Expired messages that the queues of their dead letter exchange have not confirmed (at-least-once only).
    pub messages_dlx: Option<u64>,
    /// Bytes of all message bodies.
    pub message_bytes: Option<u64>,
    /// Number of consumers.
    pub consumers: Option<u64>,
    /// The policy that applies, if any.
    pub policy: Option<String>,
    /// The operator policy that applies, if any.
    pub operator_policy: Option<String>,
    /// The merged definition of policy and operator policy.
    #[serde(default, deserialize_with = "definition")]
    pub effective_policy_definition: BTreeMap<String, Value>,
    /// Messages per second.
    #[serde(default, rename = "message_stats", deserialize_with = "rates")]
    pub rates: Rates,
}

/// Messages per second of a queue; `None` if the broker has counted none.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Messages that were published to the queue.
    pub published: Option<f64>,
    /// Messages that consumers acked.
    pub acked: Option<f64>,
}

/// Reads a number; `None` for any other value, because a broker may send a text or no value.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Value>::deserialize(from)?.as_ref().and_then(Value::as_u64))
}

/// Reads `message_stats`. A broker sends an empty object as `[]`.
fn rates<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Rates, D::Error> {
    let stats = Option::<Value>::deserialize(from)?.unwrap_or_default();
    let rate = |counter: &str| stats.get(counter)?.get("rate")?.as_f64();
    Ok(Rates { published: rate("publish_details"), acked: rate("ack_details") })
}

/// A stored policy. Of the policies that match a queue or an exchange, only the policy with the highest priority applies.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Policy {
    /// Unique among the policies of a virtual host.
    pub name: String,
    /// A regular expression of queue or exchange names.
    pub pattern: String,
    /// `all`, `queues`, `exchanges`, or queues of one type.
    #[serde(rename = "apply-to")]
    pub apply_to: String,
    /// The policy with the highest number applies.
    pub priority: i64,
    /// The keys and values that the policy sets.
    #[serde(default, deserialize_with = "definition")]
    pub definition: BTreeMap<String, Value>,
}

impl QueueStats {
    /// Messages in the queue, with delayed messages; `None` if the broker does not report them.
    pub fn held(&self) -> Option<u64> {
        Some(self.messages?.max(self.messages_delayed.unwrap_or_default()))
    }

    /// Expired messages that no queue has confirmed; `None` if the broker does not report them.
    pub fn dead_letters(&self) -> Option<u64> {
        self.messages_dlx.or_else(|| {
            // Brokers without `messages_dlx`: messages that are neither ready, nor unacked, nor delayed.
            let elsewhere = self.messages_ready?.saturating_add(self.messages_unacknowledged?);
            let elsewhere = elsewhere.saturating_add(self.messages_delayed.unwrap_or_default());
            Some(self.messages?.saturating_sub(elsewhere))
        })
    }
}

/// Reads the keys and values of a policy definition.
pub(crate) fn definition<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    Ok(Option::deserialize(from)?.map(settings).unwrap_or_default())
}

/// The keys and values of a definition. A broker sends an empty definition as `[]`, not as `{}`.
pub(crate) fn settings(definition: Value) -> BTreeMap<String, Value> {
    let Value::Object(map) = definition else { return BTreeMap::new() };
    map.into_iter().collect()
}
