//! Things to be done at an instant. One timer serves all of them: that of the earliest.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Things in the order of their instants; those of one instant in the order they came.
#[derive(Debug)]
pub struct TimerQueue<T> {
    /// In boxes: what is added in order leaves its nodes half empty.
    items: BTreeMap<(Instant, u64), Box<T>>,
    count: u64,
}

impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), count: 0 }
    }
}

impl<T> TimerQueue<T> {
    /// Adds something to be done at `at`.
    pub fn add(&mut self, at: Instant, item: T) {
        self.items.insert((at, self.count), Box::new(item));
        self.count += 1;
    }

    /// Everything is to be done earlier by `by`, in the same order.
    pub fn bring_forward(&mut self, by: Duration) {
        let items = std::mem::take(&mut self.items).into_iter();
        let earlier = |((at, count), item): ((Instant, u64), _)| {
            ((at.checked_sub(by).unwrap_or(at), count), item)
        };
        self.items = items.map(earlier).collect();
    }

    /// When the earliest is to be done; `None` while empty.
    pub fn next(&self) -> Option<Instant> {
        self.items.keys().next().map(|(at, _)| *at)
    }

    /// Takes what is to be done by `now`, earliest first, at most `limit`.
    #[must_use = "what was taken is no longer here"]
    pub fn take_due(&mut self, now: Instant, limit: usize) -> Vec<T> {
        let mut due = Vec::new();
        while due.len() < limit
            && let Some(first) = self.items.first_entry()
            && first.key().0 <= now
        {
            due.push(*first.remove());
        }
        due
    }

    /// Whether at least `many` are to be done by `now`.
    pub fn are_due(&self, many: usize, now: Instant) -> bool {
        // The keys are in the order of their instants.
        self.items.len() >= many && self.items.keys().nth(many - 1).is_some_and(|key| key.0 <= now)
    }

    /// How many wait.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether nothing waits.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// What waits, earliest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.values().map(AsRef::as_ref)
    }
}
