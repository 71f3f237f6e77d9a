//! Whose a queue is: what this program made is ours, and nothing else is.

use std::collections::BTreeMap;

use super::generation::{Hold, Kind, in_place, message_ttl, named};
use crate::{
    objects::{Argument, Binding, Objects, Queue},
    topology::{Topology, file::QueueType, level::Level},
};

/// Whose a queue is whose name and dead letter exchange are those of one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It has our mark.
    Marked,
    /// It has none, and everything about it is as a version of this program that knew no marks has made it.
    Recognized,
    /// Somebody else's, or nobody knows.
    Foreign,
}

/// What a queue of `objects` is to the topology: one of ours, or one in the place of one. `None` is a foreign queue: it
/// is never touched, whatever its name begins with.
pub(crate) fn kind<'a>(
    topology: &Topology,
    objects: &Objects,
    queue: &'a Queue,
) -> Option<Kind<'a>> {
    let kind = named(topology, queue)?;
    let ours = || owner(topology, objects, queue, kind) != Owner::Foreign;
    (in_place(topology, &queue.name) || ours()).then_some(kind)
}

/// Every parking lot of the topology that is there: the one in use, and those that it has replaced.
#[must_use]
pub(crate) fn parking_lots(topology: &Topology, objects: &Objects) -> Vec<String> {
    let is_lot = |queue: &&Queue| kind(topology, objects, queue) == Some(Kind::Parked);
    objects.queues.values().filter(is_lot).map(|queue| queue.name.clone()).collect()
}

/// Whose `queue` is.
pub(crate) fn owner(
    topology: &Topology,
    objects: &Objects,
    queue: &Queue,
    kind: Kind<'_>,
) -> Owner {
    match objects.owner_of(&queue.name) {
        Some(owner) if owner == topology.name => Owner::Marked,
        None if is_recognized(topology, objects, queue, kind) => Owner::Recognized,
        _ => Owner::Foreign,
    }
}

/// Every property has to be the one that we give, and it has to be bound as we bind it, and in no other way: a shape can
/// be anybody's. A classic queue has no argument but its dead letter exchange, so one of a timeout that is not in the
/// topology is not recognized at all.
fn is_recognized(topology: &Topology, objects: &Objects, queue: &Queue, kind: Kind<'_>) -> bool {
    if !is_shaped(topology, queue, kind) {
        return false;
    }
    let expected = expected(topology, queue, kind);
    let bindings = objects.bindings.iter().filter(|binding| {
        binding.to_queue && binding.destination == queue.name && !binding.source.is_empty()
    });
    let bindings: Vec<&Binding> = bindings.collect();
    if bindings.iter().any(|binding| **binding != expected) {
        return false;
    }
    let quorum = queue.kind == QueueType::Quorum.as_str();
    !bindings.is_empty() && (kind != Kind::Business || quorum || in_use(topology, &expected))
}

/// Whether the timeout that a business queue is bound for is in the topology.
fn in_use(topology: &Topology, expected: &Binding) -> bool {
    let mut timeouts = topology.timeouts.iter();
    timeouts.any(|timeout| expected.routing_key == format!("#.{}", timeout.name))
}

/// Whether a queue has exactly the properties that some version of this program gives, whatever its type.
fn is_shaped(topology: &Topology, queue: &Queue, kind: Kind<'_>) -> bool {
    let quorum = queue.kind == QueueType::Quorum.as_str();
    if !queue.durable || queue.auto_delete || queue.exclusive {
        return false;
    }
    let has =
        |key: &str, value: &str| queue.arguments.get(key).and_then(Argument::text) == Some(value);
    let number = |key: &str| queue.arguments.get(key).and_then(Argument::integer);
    let safe = !quorum
        || (has("x-dead-letter-strategy", "at-least-once") && has("x-overflow", "reject-publish"));
    let (fits, arguments) = match kind {
        // No version has made one without a mark.
        Kind::Delay(Hold::Digit(_)) => return false,
        Kind::Delay(Hold::Level(level)) => {
            // A version that knows a lead marks what it makes.
            let ttl = level.parse::<Level>().ok().map(|level| level.ttl());
            let fits = has("x-dead-letter-exchange", &topology.due_exchange())
                && ttl.is_some()
                && message_ttl(queue) == ttl;
            (fits && safe, if quorum { 4 } else { 2 })
        }
        Kind::Business => {
            let fits = has("x-dead-letter-exchange", &topology.park_exchange())
                && quorum == number("x-delivery-limit").is_some();
            (fits && safe, if quorum { 4 } else { 1 })
        }
        Kind::Parked => (!quorum || number("x-delivery-limit") == Some(-1), usize::from(quorum)),
    };
    fits && queue.arguments.len() == arguments
}

/// The one binding that this program makes for such a queue.
fn expected(topology: &Topology, queue: &Queue, kind: Kind<'_>) -> Binding {
    let (source, routing_key) = match kind {
        Kind::Delay(Hold::Level(hold) | Hold::Digit(hold)) => {
            (topology.entry_exchange(), format!("{hold}.*"))
        }
        Kind::Business => {
            let rest = queue.name.strip_prefix(&topology.name).unwrap_or_default();
            let timeout = rest.trim_start_matches('.').split('.').next().unwrap_or_default();
            (topology.due_exchange(), format!("#.{timeout}"))
        }
        Kind::Parked => (topology.park_exchange(), String::new()),
    };
    Binding {
        source,
        destination: queue.name.clone(),
        to_queue: true,
        routing_key,
        arguments: BTreeMap::new(),
    }
}
