//! What a broker has, as data: the objects of one virtual host and what waits in its queues.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

use super::{generation::number_of, ownership::kind};
use crate::{
    objects::{Binding, Objects, Queue},
    topology::{Topology, strategy::DELAYED_EXCHANGE_TYPE},
};

/// One reading of a virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Exchanges, queues, bindings.
    pub objects: Objects,
    /// Messages in each queue: ready, unacked, and on their way to the dead letter exchange.
    /// Up to ten seconds old (a queue reports every five, and the reports are collected every five); the broker has
    /// none for a queue it knows nothing of yet.
    pub messages: BTreeMap<String, u64>,
    /// Messages in each exchange of the delayed message plugin, on the node that answered; other nodes may hold more.
    #[serde(default)]
    pub delayed: BTreeMap<String, u64>,
    /// Queues that somebody consumes from, as late as the counts.
    #[serde(default)]
    pub consumed: BTreeSet<String>,
    /// Consumers that are not workers of ours, of the queues that a plan takes out of use; none is not in it.
    #[serde(default)]
    pub foreign_consumers: BTreeMap<String, u64>,
    /// When it was read; it is asked for where a plan depends on it.
    #[serde(default)]
    pub clock: Option<Clock>,
}

/// When a reading was made, by the clock of the broker: whoever applies next time may have another one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Clock {
    /// Seconds since 1970.
    pub now_s: u64,
    /// How long after an event the counts have surely seen it, in seconds.
    pub counts_settle_s: u64,
}

impl Snapshot {
    /// The broker right after `topology` was applied to an empty virtual host.
    #[must_use]
    pub fn of(topology: &Topology) -> Self {
        let objects = topology.objects();
        let messages = objects.queues.keys().map(|queue| (queue.clone(), 0)).collect();
        let exchanges = objects.exchanges.values();
        let holding = exchanges.filter(|exchange| exchange.kind == DELAYED_EXCHANGE_TYPE);
        let delayed = holding.map(|exchange| (exchange.name.clone(), 0)).collect();
        Self { objects, messages, delayed, ..Self::default() }
    }

    /// Messages in `queue`; `None` where the broker does not say, which does not mean zero.
    #[must_use]
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

    /// The part of it that a plan for `topology` depends on; foreign objects may come and go.
    #[must_use]
    pub fn relevant_to(&self, topology: &Topology) -> Objects {
        let wanted = topology.objects();
        let Objects { exchanges, queues, bindings } = &self.objects;
        let ours = |name: &String| {
            let marked = self.objects.owner_of_exchange(name) == Some(&topology.name);
            marked || wanted.exchanges.contains_key(name)
        };
        // What stands in the way of a generation counts, whosesoever it is.
        let numbered =
            |name: &str| wanted.queues.keys().any(|base| number_of(base, name).is_some());
        let relevant = queues.iter().filter(|(name, queue)| {
            numbered(name) || kind(topology, &self.objects, queue).is_some()
        });
        let queues: BTreeMap<String, Queue> = relevant.map(cloned).collect();
        let leads_in = |binding: &&Binding| {
            let Binding { source, destination, to_queue, .. } = binding;
            let inside =
                if *to_queue { queues.contains_key(destination) } else { ours(destination) };
            // What comes in from elsewhere counts: it keeps a retired queue from being deleted.
            inside
                && !source.is_empty()
                && binding.mark_of().is_none_or(|owner| owner == topology.name)
        };
        Objects {
            exchanges: exchanges.iter().filter(|(name, _)| ours(name)).map(cloned).collect(),
            bindings: bindings.iter().filter(leads_in).cloned().collect(),
            queues,
        }
    }
}

fn cloned<T: Clone>((name, object): (&String, &T)) -> (String, T) {
    (name.clone(), object.clone())
}
