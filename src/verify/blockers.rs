//! What blocks the dead letters of a queue.

use std::collections::{BTreeMap, BTreeSet};

use super::{dead_letters::dead_letter_keys, limits::Effective, queues::role};
use crate::{
    objects::{Objects, Queue, routing::route},
    plan::snapshot::{QueueStats, Snapshot},
    topology::Topology,
};

/// A destination that takes no dead letters, or the lack of one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// The dead letter exchange does not exist.
    NoExchange {
        /// The exchange that is missing.
        exchange: String,
    },
    /// Messages with this routing key reach no queue.
    NoRoute {
        /// The exchange.
        exchange: String,
        /// The key, or its pattern.
        key: String,
    },
    /// The exchange has no alternate exchange: whatever has another key than the topology's stays.
    NoAlternate {
        /// The exchange.
        exchange: String,
    },
    /// A queue that refuses messages when it is full is full. What it refused is tried again three minutes after
    /// its last try, whatever is done (`rabbit_fifo_dlx_worker:redeliver_messages/1`).
    Full {
        /// The queue.
        queue: String,
        /// Which limit.
        limit: String,
    },
    /// The routing leads back to the queue itself.
    Cycle {
        /// The exchange.
        exchange: String,
        /// The key.
        key: String,
    },
}

impl std::fmt::Display for Blocker {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::NoExchange { exchange } => write!(f, "exchange {exchange} does not exist"),
            Self::NoRoute { exchange, key } => {
                write!(
                    f,
                    "exchange {exchange} has no queue for {key}, and no alternate exchange takes it"
                )
            }
            Self::NoAlternate { exchange } => write!(
                f,
                "exchange {exchange} has no alternate exchange: messages of a timeout that is not bound stay for ever"
            ),
            Self::Full { queue, limit } => {
                write!(f, "queue {queue} is full ({limit}) and refuses more")
            }
            Self::Cycle { exchange, key } => {
                write!(
                    f,
                    "exchange {exchange} leads {key} back to the queue it comes from: a cycle"
                )
            }
        }
    }
}

/// Everything in this reading that can block the dead letters of `queue`.
#[must_use]
pub fn blockers(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
    queue: &Queue,
) -> BTreeSet<Blocker> {
    let effective = |queue| Effective { queue, stats: stats.get(&queue.name) };
    let Some(exchange) = effective(queue).own_first("dead-letter-exchange") else {
        return BTreeSet::new();
    };
    let exchange = exchange.to_owned();
    let objects = &observed.objects;
    let Some(dlx) = objects.exchanges.get(&exchange) else {
        return BTreeSet::from([Blocker::NoExchange { exchange }]);
    };
    let mut found = BTreeSet::new();
    for key in keys(topology, objects, queue, effective(queue)) {
        let routed = route(objects, &exchange, &key);
        let missing = routed.missing.iter().cloned();
        found.extend(missing.map(|exchange| Blocker::NoExchange { exchange }));
        if routed.queues.is_empty() {
            found.insert(Blocker::NoRoute { exchange: exchange.clone(), key: key.clone() });
        }
        if routed.queues.contains(&queue.name) {
            found.insert(Blocker::Cycle { exchange: exchange.clone(), key });
        }
        let targets = routed.queues.iter().filter_map(|name| objects.queues.get(name));
        found.extend(targets.filter_map(|target| full(effective(target))));
    }
    let reported = found.iter().any(|blocker| matches!(blocker, Blocker::NoRoute { .. }));
    if !reported && dlx.kind != "fanout" && dlx.alternate().is_none() {
        found.insert(Blocker::NoAlternate { exchange });
    }
    found
}

/// Routing keys that come out of a queue; a policy may set one.
fn keys(
    topology: &Topology,
    objects: &Objects,
    queue: &Queue,
    effective: Effective<'_>,
) -> Vec<String> {
    if let Some(key) = effective.own_first("dead-letter-routing-key") {
        return vec![key.to_owned()];
    }
    let Some(role) = role(topology, objects, queue) else { return Vec::new() };
    dead_letter_keys(topology, objects, queue, role).into_iter().map(|key| key.text).collect()
}

/// A full queue that drops its oldest messages takes new ones.
fn full(target: Effective<'_>) -> Option<Blocker> {
    let limit = target.full().filter(|_| target.rejects_when_full())?;
    Some(Blocker::Full { queue: target.queue.name.clone(), limit })
}
