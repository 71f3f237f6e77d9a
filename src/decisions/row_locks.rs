//! Row locks of others: which orders are kept locked and for how long. The caller passes the time in.

use std::{
    collections::HashMap,
    time::{Duration, Instant},
};

use crate::order::{OrderId, Outcome};

/// So long a lock is held before a person hears of it, and so long until they hear of it again.
pub const REPORT_AFTER: Duration = Duration::from_secs(10);
/// An order that was not asked for so long is no longer anybody's business here.
const FORGET_AFTER: Duration = Duration::from_mins(1);
/// Orders that are remembered at the most.
const REMEMBERED: usize = 10_000;
/// Orders that are named at the most: a line of the log is to be readable.
pub const NAMED: usize = 20;

/// What a person should hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Orders that have been locked for longer than [`REPORT_AFTER`].
    pub orders: usize,
    /// Those that have been locked for longest, longest first; at most [`NAMED`].
    pub named: Vec<OrderId>,
    /// For how long the first of them, at least.
    pub since: Duration,
}

/// The orders that are busy.
#[derive(Debug, Default)]
pub struct BusyOrders {
    /// When each was found busy first, and last.
    seen: HashMap<OrderId, (Instant, Instant)>,
    reported: Option<Instant>,
}

impl BusyOrders {
    /// The outcomes of a batch. Something to report at most once per [`REPORT_AFTER`].
    pub fn observe(&mut self, ids: &[OrderId], outcomes: &[Outcome], now: Instant) -> Option<Held> {
        for (id, outcome) in ids.iter().zip(outcomes) {
            if *outcome != Outcome::Busy {
                self.seen.remove(id);
            } else if let Some((_, last)) = self.seen.get_mut(id) {
                *last = now;
            } else if self.seen.len() < REMEMBERED {
                self.seen.insert(id.clone(), (now, now));
            }
        }
        if self.reported.is_some_and(|reported| now - reported < REPORT_AFTER) {
            return None;
        }
        self.seen.retain(|_, (_, last)| now - *last < FORGET_AFTER);
        let held = self.held()?;
        self.reported = Some(now);
        Some(held)
    }

    /// What was seen only once may have been free a moment later: it says nothing of how long.
    fn held(&self) -> Option<Held> {
        let long = self.seen.iter().map(|(id, (first, last))| (*last - *first, id));
        let mut long: Vec<_> = long.filter(|(since, _)| *since >= REPORT_AFTER).collect();
        long.sort_unstable_by(|(a, x), (b, y)| b.cmp(a).then(x.cmp(y)));
        let since = long.first()?.0;
        let named = long.iter().take(NAMED).map(|(_, id)| (*id).clone()).collect();
        Some(Held { orders: long.len(), named, since })
    }
}
