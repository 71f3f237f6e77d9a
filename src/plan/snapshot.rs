//! What a broker has, as data: the objects of one virtual host and what waits in its queues.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::Value;

use crate::{
    objects::Objects,
    topology::{Topology, strategy::DELAYED_EXCHANGE_TYPE},
};

/// Dead letters that a quorum queue hands on at once, unless `dead_letter_worker_consumer_prefetch` is raised
/// (<https://www.rabbitmq.com/docs/quorum-queues#activating-at-least-once-dead-lettering>).
pub(crate) const SLOTS: u64 = 32;

/// One reading of a virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Where it was read.
    pub virtual_host: String,
    /// Exchanges, queues, bindings.
    pub objects: Objects,
    /// Messages in each queue: ready, unacked, held back, and on their way to the dead letter exchange.
    /// Up to ten seconds old (a queue reports every five, and the reports are collected every five); the broker has
    /// none for a queue it knows nothing of yet.
    pub messages: BTreeMap<String, u64>,
    /// Messages in each exchange of the delayed message plugin, on the node that answered; other nodes may hold more.
    pub delayed: BTreeMap<String, u64>,
    /// Queues that somebody consumes from, as late as the counts.
    pub consumed: BTreeSet<String>,
    /// Consumers that are not workers of ours, of the queues that a plan takes out of use; none is not in it.
    pub foreign_consumers: BTreeMap<String, u64>,
    /// Policies of the virtual host.
    pub policies: Vec<Policy>,
    /// Operator policies of the virtual host; none where this user may not see them.
    pub operator_policies: Vec<Policy>,
    /// When it was read; it is asked for where a plan depends on it.
    pub clock: Option<Clock>,
}

/// When a reading was made, by the clock of the broker: whoever applies next time may have another one.
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

    /// Messages in `queue`; `None` where the broker does not say, which does not mean zero.
    pub fn messages_in(&self, queue: &str) -> Option<u64> {
        self.messages.get(queue).copied()
    }

    /// Corrects a count by what the queue itself says is ready; what is not ready stays as it was.
    pub fn at_least(&mut self, queue: &str, ready: u64) {
        if ready > 0 {
            let messages = self.messages.entry(queue.to_owned()).or_default();
            *messages = ready.max(*messages);
        }
    }
}

/// One queue's numbers, as the management API has them: up to ten seconds old.
/// `None` where the broker has no numbers yet (it has just started) or collects none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct QueueStats {
    /// The queue.
    pub name: String,
    /// `quorum`, `classic`, …
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Ready, unacked, held back, and on their way to the dead letter exchange.
    pub messages: Option<u64>,
    /// Waiting for a consumer or for their TTL.
    pub messages_ready: Option<u64>,
    /// With a consumer.
    pub messages_unacknowledged: Option<u64>,
    /// Held back: given back, and waiting to be handed out again (delayed retry, 4.3 and later), or published with the header
    /// `x-opt-delivery-time` (4.4). To AMQP they are not there.
    #[serde(default, deserialize_with = "number")]
    pub messages_delayed: Option<u64>,
    /// Until when it holds the first of them back, in milliseconds since 1970; `None` where there is none, and before 4.3.
    #[serde(default, deserialize_with = "number")]
    pub next_delayed_at: Option<u64>,
    /// The same of the last of them.
    #[serde(default, deserialize_with = "number")]
    pub last_delayed_at: Option<u64>,
    /// Due, and not yet confirmed by the queues they are dead-lettered to (at-least-once only).
    pub messages_dlx: Option<u64>,
    /// Bytes of all message bodies.
    pub message_bytes: Option<u64>,
    /// Consumers.
    pub consumers: Option<u64>,
    /// The policy that applies, if any.
    pub policy: Option<String>,
    /// The operator policy that applies, if any.
    pub operator_policy: Option<String>,
    /// What both come to.
    #[serde(default, deserialize_with = "definition")]
    pub effective_policy_definition: BTreeMap<String, Value>,
    /// What goes through it.
    #[serde(default, rename = "message_stats", deserialize_with = "rates")]
    pub rates: Rates,
}

/// What goes through a queue, messages per second; `None` if the broker has counted nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Rates {
    /// Published to it.
    pub published: Option<f64>,
    /// Acked by its consumers.
    pub acked: Option<f64>,
}

/// What is no number is not known: a broker may have no value, or a text in its place.
fn number<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Option<u64>, D::Error> {
    Ok(Option::<Value>::deserialize(from)?.as_ref().and_then(Value::as_u64))
}

/// An empty object comes as `[]`.
fn rates<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Rates, D::Error> {
    let stats = Option::<Value>::deserialize(from)?.unwrap_or_default();
    let rate = |counter: &str| stats.get(counter)?.get("rate")?.as_f64();
    Ok(Rates { published: rate("publish_details"), acked: rate("ack_details") })
}

/// A policy as it is stored. Of those that match a queue or an exchange the one with the highest priority applies, alone.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
pub struct Policy {
    /// Unique among the policies of a virtual host.
    pub name: String,
    /// A regular expression of queue or exchange names.
    pub pattern: String,
    /// `all`, `queues`, `exchanges`, or queues of one type.
    #[serde(rename = "apply-to")]
    pub apply_to: String,
    /// Higher wins.
    pub priority: i64,
    /// What it sets.
    #[serde(default, deserialize_with = "definition")]
    pub definition: BTreeMap<String, Value>,
}

impl QueueStats {
    /// Everything that is in it, also what it holds back; `None` where the broker does not say.
    pub fn held(&self) -> Option<u64> {
        Some(self.messages?.max(self.messages_delayed.unwrap_or_default()))
    }

    /// Messages that are due and that no queue has taken yet; `None` where the broker does not say.
    pub fn dead_letters(&self) -> Option<u64> {
        self.messages_dlx.or_else(|| {
            // Brokers without `messages_dlx`: what is neither ready, nor with a consumer, nor delayed.
            let elsewhere = self.messages_ready?.saturating_add(self.messages_unacknowledged?);
            let elsewhere = elsewhere.saturating_add(self.messages_delayed.unwrap_or_default());
            Some(self.messages?.saturating_sub(elsewhere))
        })
    }
}

/// What a policy definition sets.
pub(crate) fn definition<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    Ok(Option::deserialize(from)?.map(settings).unwrap_or_default())
}

/// An empty definition comes as `[]`, not as `{}`.
pub(crate) fn settings(definition: Value) -> BTreeMap<String, Value> {
    let Value::Object(map) = definition else { return BTreeMap::new() };
    map.into_iter().collect()
}
