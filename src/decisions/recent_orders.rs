//! Orders with which something was done a moment ago. The caller passes the time in.
//!
//! An id is kept as the 128 bits of two hashes with random keys, so it takes 40 bytes however long it is. Another id that
//! has the same bits as one of those remembered is met once in 10^33 questions.

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
    time::{Duration, Instant},
};

use crate::order::OrderId;

/// Orders that are remembered at the most: 10 MB.
pub const BOUND: usize = 200_000;
/// For so long they are. A message that is behind the others by more is asked for.
pub const REMEMBERED_FOR: Duration = Duration::from_secs(30);

type Key = [u64; 2];

/// The newest orders, bounded by count and age.
#[derive(Debug, Default)]
pub struct Remembered {
    hashers: [RandomState; 2],
    /// Each with the number of the group it came in last.
    orders: HashMap<Key, u64>,
    groups: VecDeque<Group>,
    /// The number of the first group.
    first: u64,
    /// In all groups: an order that was taken, or that came again, counts until its group goes.
    len: usize,
}

#[derive(Debug)]
struct Group {
    at: Instant,
    keys: Box<[Key]>,
}

impl Remembered {
    /// Remembers orders, and forgets the oldest of those that are too many or too old.
    pub fn add<'a>(&mut self, ids: impl IntoIterator<Item = &'a OrderId>, now: Instant) {
        let keys: Box<[Key]> = ids.into_iter().take(BOUND).map(|id| self.key(id)).collect();
        if keys.is_empty() {
            return;
        }
        self.len += keys.len();
        while self.groups.front().is_some_and(|group| self.len > BOUND || group.is_old(now)) {
            self.forget_first();
        }
        let number = self.first + self.groups.len() as u64;
        self.orders.extend(keys.iter().map(|key| (*key, number)));
        self.groups.push_back(Group { at: now, keys });
    }

    /// Forgets what is too old, and gives the memory back.
    pub fn forget_old(&mut self, now: Instant) {
        while self.groups.front().is_some_and(|group| group.is_old(now)) {
            self.forget_first();
        }
        self.orders.shrink_to_fit();
        self.groups.shrink_to_fit();
    }

    /// Whether it is remembered.
    #[must_use]
    pub fn has(&self, id: &OrderId, now: Instant) -> bool {
        // Nearly always.
        !self.orders.is_empty() && self.is_new(&self.key(id), now)
    }

    /// Whether it is remembered; it is not after that.
    #[must_use = "it is forgotten"]
    pub fn take(&mut self, id: &OrderId, now: Instant) -> bool {
        if self.orders.is_empty() {
            return false;
        }
        let key = self.key(id);
        let is_new = self.is_new(&key, now);
        self.orders.remove(&key);
        is_new
    }

    /// How many are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.orders.len()
    }

    /// Whether none is.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.orders.is_empty()
    }

    fn key(&self, id: &OrderId) -> Key {
        let [first, second] = &self.hashers;
        [first.hash_one(id), second.hash_one(id)]
    }

    fn is_new(&self, key: &Key, now: Instant) -> bool {
        let group = self.orders.get(key).and_then(|number| {
            let index = usize::try_from(number - self.first).ok()?;
            self.groups.get(index)
        });
        group.is_some_and(|group| !group.is_old(now))
    }

    fn forget_first(&mut self) {
        let Some(group) = self.groups.pop_front() else { return };
        self.len -= group.keys.len();
        for key in &group.keys {
            // One that came again stays with its newer group.
            if self.orders.get(key) == Some(&self.first) {
                self.orders.remove(key);
            }
        }
        self.first += 1;
    }
}

impl Group {
    fn is_old(&self, now: Instant) -> bool {
        now.saturating_duration_since(self.at) >= REMEMBERED_FOR
    }
}
