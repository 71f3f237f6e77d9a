//! How long messages take through queues that dead-letter to one another: the places of a ladder.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{own_queues::message_ttl, snapshot::Snapshot};
use crate::{
    objects::{Objects, Queue},
    topology::level::Ttl,
};

/// The longest ways to queues. Each is looked up once: there are many ways through a ladder.
pub(super) struct Ways<'a> {
    objects: &'a Objects,
    /// With counts, only ways that something is on.
    messages: Option<&'a BTreeMap<String, u64>>,
    known: BTreeMap<&'a str, Option<Duration>>,
}

impl<'a> Ways<'a> {
    /// Of what may be published.
    pub(super) fn of(objects: &'a Objects) -> Self {
        Self { objects, messages: None, known: BTreeMap::new() }
    }

    /// Of what waits. Counts that the broker does not have count as messages.
    pub(super) fn of_messages(observed: &'a Snapshot) -> Self {
        Self { messages: Some(&observed.messages), ..Self::of(&observed.objects) }
    }

    /// How long a message waits in the queues before `queue` at the most; `None` if none comes through others.
    pub(super) fn to(&mut self, queue: &'a Queue) -> Option<Duration> {
        if let Some(known) = self.known.get(queue.name.as_str()) {
            return *known;
        }
        // Of a cycle, which has no longest way.
        self.known.insert(&queue.name, None);
        let exchanges = leading_to(self.objects, &queue.name);
        let mut longest = None;
        for before in self.objects.queues.values().filter(|it| it.name != queue.name) {
            if before.dead_letter_exchange().is_none_or(|to| !exchanges.contains(to)) {
                continue;
            }
            let earlier = self.to(before);
            let holds = self.messages.is_none_or(|it| it.get(&before.name) != Some(&0));
            if holds || earlier.is_some() {
                let own = message_ttl(before).map(Ttl::as_duration).unwrap_or_default();
                longest = longest.max(Some(own + earlier.unwrap_or_default()));
            }
        }
        self.known.insert(&queue.name, longest);
        longest
    }
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
