//! What a broker has, as data: the objects of one virtual host and what waits in its queues.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::{objects::Objects, topology::Topology};

/// One reading of a virtual host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Exchanges, queues, bindings.
    pub objects: Objects,
    /// Messages in each queue: ready, unacked, and on their way to the dead letter exchange.
    /// Up to ten seconds old (a queue reports every five, and the reports are collected every five); the broker has
    /// none for a queue it knows nothing of yet.
    pub messages: BTreeMap<String, u64>,
}

impl Snapshot {
    /// The broker right after `topology` was applied to an empty virtual host.
    #[must_use]
    pub fn of(topology: &Topology) -> Self {
        let objects = topology.objects();
        let messages = objects.queues.keys().map(|queue| (queue.clone(), 0)).collect();
        Self { objects, messages }
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
        let prefix = format!("{}.", topology.name);
        let lock = topology.lock_queue();
        let inside = |name: &str| name.starts_with(&prefix) && name != lock;
        let Objects { exchanges, queues, bindings } = &self.objects;
        Objects {
            exchanges: exchanges.iter().filter(|(name, _)| inside(name)).map(cloned).collect(),
            queues: queues.iter().filter(|(name, _)| inside(name)).map(cloned).collect(),
            bindings: bindings
                .iter()
                // What comes in from elsewhere counts: it keeps a retired queue from being deleted.
                .filter(|binding| inside(&binding.destination) && !binding.source.is_empty())
                .cloned()
                .collect(),
        }
    }
}

fn cloned<T: Clone>((name, object): (&String, &T)) -> (String, T) {
    (name.clone(), object.clone())
}
