//! What a plan leaves alone, and why.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::snapshot::Snapshot;
use crate::{
    objects::{Binding, Objects, Queue, mark::mark},
    topology::Topology,
};

/// Something on the broker that a person should know of; the plan does nothing about it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum Note {
    /// A queue has the name of one of ours, and neither our mark nor the form that we give.
    Unmarked {
        /// The queue.
        queue: String,
        /// The exchange of our marks.
        exchange: String,
        /// The mark that would make it ours: the routing key of its binding.
        mark: String,
    },
    /// A queue would be retired, and somebody else consumes from it.
    Consumed {
        /// The queue.
        queue: String,
        /// How many consumers are not workers of ours.
        consumers: u64,
    },
    /// Another topology has queues here that nobody consumes: perhaps this one under its former name.
    Unused {
        /// The other topology.
        topology: String,
        /// Queues with its mark.
        queues: u64,
        /// Messages in them, as far as they are counted.
        messages: u64,
    },
}

/// A queue that looks like one of ours and is not; one that another topology has marked is that one's business.
pub(super) fn unmarked(topology: &Topology, objects: &Objects, queue: &Queue) -> Option<Note> {
    if objects.owner_of(&queue.name).is_some() {
        return None;
    }
    let Binding { source, destination, routing_key, .. } = mark(&topology.name, &queue.name)?;
    Some(Note::Unmarked { queue: destination, exchange: source, mark: routing_key })
}

/// Other topologies of this program in the same virtual host that nobody consumes.
pub(super) fn unused(topology: &Topology, observed: &Snapshot) -> Vec<Note> {
    let mut others: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for binding in &observed.objects.bindings {
        if let Some(other) = binding.mark_of().filter(|other| *other != topology.name) {
            others.entry(other).or_default().push(&binding.destination);
        }
    }
    others.retain(|_, queues| !queues.iter().any(|queue| observed.consumed.contains(*queue)));
    let note = |(other, queues): (&str, Vec<&str>)| {
        let messages = queues.iter().filter_map(|queue| observed.messages_in(queue));
        Note::Unused {
            topology: other.to_owned(),
            messages: messages.sum(),
            queues: u64::try_from(queues.len()).unwrap_or(u64::MAX),
        }
    };
    others.into_iter().map(note).collect()
}
