//! Orders that somebody else keeps locked: who they are, and for how long. The caller passes the time in.

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

/// What a person should hear.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// Orders that have been locked for longer than [`REPORT_AFTER`].
    pub orders: usize,
    /// The one that has been locked for longest.
    pub example: OrderId,
    /// For how long, at least.
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
        let held = self.held(now)?;
        self.reported = Some(now);
        Some(held)
    }

    fn held(&self, now: Instant) -> Option<Held> {
        let long = self.seen.iter().filter(|(_, (first, _))| now - *first >= REPORT_AFTER);
        let (mut orders, mut oldest) = (0, None);
        for (id, (first, _)) in long {
            orders += 1;
            oldest = oldest.max(Some((now - *first, id)));
        }
        oldest.map(|(since, id)| Held { orders, example: id.clone(), since })
    }
}
