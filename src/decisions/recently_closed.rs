//! Orders that were closed by the table recently: when each was queried, and its deadline. The caller passes the time.

use std::{collections::HashMap, mem, time::Instant};

use crate::order::OrderId;

/// Orders in each of the two halves: as many as a pass of a burst reads, about 5 MB.
pub const HALF: usize = 50_000;

/// When an order was queried, and its deadline in milliseconds since 1970.
type Closed = (Instant, Option<i64>);

/// The newest orders: at least [`HALF`], and at most twice [`HALF`] and a page.
#[derive(Debug, Default)]
pub struct RecentlyClosed {
    newer: HashMap<OrderId, Closed>,
    older: HashMap<OrderId, Closed>,
}

impl RecentlyClosed {
    /// Adds orders that were queried at `asked`, each with its deadline, and returns their number. If the newer half is full,
    /// the older half is dropped.
    pub fn add(
        &mut self,
        orders: impl IntoIterator<Item = (OrderId, Option<i64>)>,
        asked: Instant,
    ) -> usize {
        if self.newer.len() >= HALF {
            self.older = mem::take(&mut self.newer);
        }
        let mut count = 0;
        let orders = orders.into_iter().map(|(id, due_ms)| (id, (asked, due_ms)));
        self.newer.extend(orders.inspect(|_| count += 1));
        count
    }

    /// Whether the order was closed by a query after `received`, or with the deadline `due_ms`.
    pub fn has(&self, id: &OrderId, received: Instant, due_ms: Option<i64>) -> bool {
        let has = |half: &HashMap<OrderId, Closed>| {
            half.get(id).is_some_and(|(asked, deadline)| {
                *asked > received || due_ms.is_some() && due_ms == *deadline
            })
        };
        has(&self.newer) || has(&self.older)
    }

    /// Number of orders; an order that was closed twice may count twice.
    pub fn len(&self) -> usize {
        self.newer.len() + self.older.len()
    }

    /// Whether there are no orders.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
