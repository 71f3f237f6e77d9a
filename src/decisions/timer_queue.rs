//! Items with an instant. All of them need only one timer: for the earliest instant.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

/// Items in the order of their instants; items with equal instants in the order of arrival.
#[derive(Debug)]
pub struct TimerQueue<T> {
    /// Boxed: nodes of a map that grows in key order stay half empty.
    items: BTreeMap<(Instant, u64), Box<T>>,
    count: u64,
}

impl<T> Default for TimerQueue<T> {
    fn default() -> Self {
        Self { items: BTreeMap::new(), count: 0 }
    }
}

impl<T> TimerQueue<T> {
    /// Adds an item for `at`.
    pub fn add(&mut self, at: Instant, item: T) {
        self.items.insert((at, self.count), Box::new(item));
        self.count += 1;
    }

    /// Makes every item due earlier by `by`; the order stays.
    pub fn bring_forward(&mut self, by: Duration) {
        let items = std::mem::take(&mut self.items).into_iter();
        let earlier = |((at, count), item): ((Instant, u64), _)| {
            ((at.checked_sub(by).unwrap_or(at), count), item)
        };
        self.items = items.map(earlier).collect();
    }

    /// The earliest instant; `None` while empty.
    pub fn next(&self) -> Option<Instant> {
        self.items.keys().next().map(|(at, _)| *at)
    }

    /// Removes the items whose instant is reached at `now`, earliest first, at most `limit`.
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

    /// Whether the instants of at least `many` items are reached at `now`.
    pub fn are_due(&self, many: usize, now: Instant) -> bool {
        // The keys are in the order of their instants.
        self.items.len() >= many && self.items.keys().nth(many - 1).is_some_and(|key| key.0 <= now)
    }

    /// Number of items.
    pub fn len(&self) -> usize {
        self.items.len()
    }

    /// Whether there are no items.
    pub fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// All items, earliest first.
    pub fn iter(&self) -> impl Iterator<Item = &T> {
        self.items.values().map(AsRef::as_ref)
    }
}
