//! How a queue hands on its dead letters, and with which routing keys.

use std::collections::BTreeSet;

use crate::{
    objects::{Objects, Queue},
    plan::{
        generation::number_of,
        own_queues::{Hold, Kind},
    },
    topology::{Timeout, Topology},
};

/// Dead letters that a quorum queue hands on at once, unless `dead_letter_worker_consumer_prefetch` is raised
/// (<https://www.rabbitmq.com/docs/quorum-queues#activating-at-least-once-dead-lettering>).
pub(crate) const SLOTS: u64 = 32;

/// A routing key of dead letters.
pub(super) struct DeadLetterKey {
    pub(super) text: String,
    /// The business queue that messages with this key are for.
    pub(super) queue: Option<String>,
}

/// Routing keys that come out of a queue: of every timeout, in place of any level; or the one that the queue sets.
pub(super) fn dead_letter_keys(
    topology: &Topology,
    objects: &Objects,
    queue: &Queue,
    role: Kind<'_>,
) -> Vec<DeadLetterKey> {
    if let Some(key) = queue.dead_letter_routing_key() {
        return vec![DeadLetterKey { text: key.to_owned(), queue: None }];
    }
    let delays = matches!(role, Kind::Delay(_));
    let mut keys: BTreeSet<(String, Option<String>)> = BTreeSet::new();
    for timeout in &topology.timeouts {
        let base = topology.business_queue(timeout);
        if delays {
            keys.extend(key_out_of(topology, objects, role, timeout).map(|key| (key, Some(base))));
        } else if number_of(&base, &queue.name).is_some() {
            keys.insert((Topology::routing_key(&timeout.after, timeout), None));
        }
    }
    keys.into_iter().map(|(text, queue)| DeadLetterKey { text, queue }).collect()
}

/// What comes out of a delay queue for a timeout, and goes straight to the due exchange.
fn key_out_of(
    topology: &Topology,
    objects: &Objects,
    role: Kind<'_>,
    timeout: &Timeout,
) -> Option<String> {
    match role {
        Kind::Delay(Hold::Level(level)) => Some(format!("{level}.{}", timeout.name)),
        Kind::Delay(Hold::Digit(_)) => Some(topology.key_through_the_ladder(objects, timeout)),
        Kind::Business | Kind::Parked => None,
    }
}
