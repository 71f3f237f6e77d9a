//! How a queue hands on its dead letters, and with which routing keys.

use std::collections::BTreeSet;

use crate::{
    objects::Queue,
    plan::generation::{Kind, number_of},
    topology::Topology,
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
    queue: &Queue,
    role: Kind<'_>,
) -> Vec<DeadLetterKey> {
    if let Some(key) = queue.dead_letter_routing_key() {
        return vec![DeadLetterKey { text: key.to_owned(), queue: None }];
    }
    let level = match role {
        Kind::Delay(level) => Some(level),
        _ => None,
    };
    let mut keys: BTreeSet<(String, Option<String>)> = BTreeSet::new();
    for timeout in &topology.timeouts {
        let base = topology.business_queue(timeout);
        if let Some(level) = level {
            keys.insert((format!("{level}.{}", timeout.name), Some(base)));
        } else if number_of(&base, &queue.name).is_some() {
            keys.insert((Topology::routing_key(&timeout.after, timeout), None));
        }
    }
    keys.into_iter().map(|(text, queue)| DeadLetterKey { text, queue }).collect()
}
