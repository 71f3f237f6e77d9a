//! Orders that a burst closed a moment ago, each with the instant before its statement was sent. The caller passes the time in.

use std::{collections::HashMap, mem, time::Instant};

use crate::order::OrderId;

/// Orders in each of the two halves: as many as a pass of a burst reads, about 5 MB.
pub const HALF: usize = 50_000;

/// The newest orders: at least [`HALF`] of them, and at most twice that and a page.
#[derive(Debug, Default)]
pub struct RecentlyClosed {
    newer: HashMap<OrderId, Instant>,
    older: HashMap<OrderId, Instant>,
}

impl RecentlyClosed {
    /// Adds orders that were asked for at `asked`, and says how many; the older half makes room if the newer one is full.
    pub fn add(&mut self, ids: impl IntoIterator<Item = OrderId>, asked: Instant) -> usize {
        if self.newer.len() >= HALF {
            self.older = mem::take(&mut self.newer);
        }
        let mut count = 0;
        self.newer.extend(ids.into_iter().map(|id| (id, asked)).inspect(|_| count += 1));
        count
    }

    /// Whether an order was asked for after `received`, and closed.
    pub fn has_since(&self, id: &OrderId, received: Instant) -> bool {
        let has = |half: &HashMap<OrderId, Instant>| half.get(id).is_some_and(|at| *at > received);
        has(&self.newer) || has(&self.older)
    }

    /// How many orders are remembered; one that was closed twice may count twice.
    pub fn len(&self) -> usize {
        self.newer.len() + self.older.len()
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
