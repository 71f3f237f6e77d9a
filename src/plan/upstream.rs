//! What waits before a queue of a ladder: in queues that dead-letter to the exchanges that lead to it.

use std::{collections::BTreeSet, time::Duration};

use super::{generation::message_ttl, snapshot::Snapshot};
use crate::{
    objects::{Objects, Queue},
    topology::level::Ttl,
};

/// The longest that a message before `queue` can take to come to it; none where nothing waits there. Counts that the
/// broker does not have count as messages.
pub(super) fn longest_wait(observed: &Snapshot, queue: &Queue) -> Option<Duration> {
    let mut seen = BTreeSet::new();
    wait_before(observed, queue, &mut seen)
}

fn wait_before<'a>(
    observed: &'a Snapshot,
    queue: &'a Queue,
    seen: &mut BTreeSet<&'a str>,
) -> Option<Duration> {
    if !seen.insert(&queue.name) {
        return None;
    }
    let exchanges = leading_to(&observed.objects, &queue.name);
    let queues = observed.objects.queues.values();
    let before = queues.filter(|before| {
        before.name != queue.name
            && before.dead_letter_exchange().is_some_and(|to| exchanges.contains(to))
    });
    let mut longest = None;
    for before in before {
        let earlier = wait_before(observed, before, seen);
        let holds = observed.messages_in(&before.name) != Some(0);
        if holds || earlier.is_some() {
            let own = message_ttl(before).map(Ttl::as_duration).unwrap_or_default();
            longest = longest.max(Some(own + earlier.unwrap_or_default()));
        }
    }
    longest
}

/// The exchanges from which bindings lead to a queue, directly or through other exchanges.
fn leading_to<'a>(objects: &'a Objects, queue: &str) -> BTreeSet<&'a str> {
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
