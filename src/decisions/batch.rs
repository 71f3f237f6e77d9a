//! A batch of deliveries, bounded by count and by age. The caller passes the time in.

use std::time::{Duration, Instant};

/// How large and how old a batch may get.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchLimits {
    /// Items at the most, at least 1.
    pub size: usize,
    /// Age of the first item at the most.
    pub age: Duration,
}

/// Items collected since the last flush.
#[derive(Debug)]
pub struct Batch<T> {
    limits: BatchLimits,
    items: Vec<T>,
    deadline: Option<Instant>,
}

impl<T> Batch<T> {
    /// An empty batch.
    #[must_use]
    pub const fn new(limits: BatchLimits) -> Self {
        Self { limits, items: Vec::new(), deadline: None }
    }

    /// Adds an item that came at `now`; gives the batch back when this one fills it.
    #[must_use = "a full batch is to be closed"]
    pub fn push(&mut self, item: T, now: Instant) -> Option<Vec<T>> {
        if self.items.is_empty() {
            self.deadline = Some(now + self.limits.age);
        }
        self.items.push(item);
        (self.items.len() >= self.limits.size).then(|| self.take())
    }

    /// When the first item will have waited long enough; `None` while empty.
    #[must_use]
    pub const fn deadline(&self) -> Option<Instant> {
        self.deadline
    }

    /// Whether there is nothing to flush.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.items.is_empty()
    }

    /// Everything collected, in the order it came; leaves the batch empty.
    #[must_use]
    pub fn take(&mut self) -> Vec<T> {
        self.deadline = None;
        std::mem::take(&mut self.items)
    }
}
