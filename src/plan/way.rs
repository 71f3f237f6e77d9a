//! The queues that dead-letter to a queue, directly or through other queues.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::own_queues::message_ttl;
use crate::{
    objects::{Objects, Queue},
    topology::level::Ttl,
};

/// Longest time that a message waits in the queues that lead to `queue`. `known` gets the name of each of these queues with the
/// longest time before it: a ladder has many ways, and each queue is examined once.
pub(super) fn longest<'a>(
    objects: &'a Objects,
    queue: &Queue,
    known: &mut BTreeMap<&'a str, Duration>,
) -> Duration {
    let exchanges = leading_to(objects, &queue.name);
    let leads = |it: &&Queue| it.dead_letter_exchange().is_some_and(|to| exchanges.contains(to));
    let mut longest_way = Duration::ZERO;
    for before in objects.queues.values().filter(leads) {
        let earlier = known.get(before.name.as_str()).copied().unwrap_or_else(|| {
            // A cycle has no longest way: the second visit of a queue adds nothing.
            known.insert(&before.name, Duration::ZERO);
            let earlier = longest(objects, before, known);
            known.insert(&before.name, earlier);
            earlier
        });
        let own = message_ttl(before).map(Ttl::as_duration).unwrap_or_default();
        longest_way = longest_way.max(earlier + own);
    }
    longest_way
}

/// The exchanges from which bindings lead to a queue, directly or through other exchanges.
pub(super) fn leading_to<'a>(objects: &'a Objects, queue: &str) -> BTreeSet<&'a str> {
    let mut found: BTreeSet<&str> = BTreeSet::new();
    let mut next: Vec<(&str, bool)> = vec![(queue, true)];
    while let Some((name, is_queue)) = next.pop() {
        let sources = objects.bindings.iter().filter(|binding| {
            let here = binding.to_queue == is_queue && binding.destination == name;
            here && !binding.source.is_empty() && binding.mark_of().is_none()
        });
        let new: Vec<&str> =
            sources.map(|it| it.source.as_str()).filter(|it| found.insert(it)).collect();
        next.extend(new.into_iter().map(|source| (source, false)));
    }
    found
}
