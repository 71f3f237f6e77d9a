//! Row locks of others: which orders are kept locked and for how long, and how a batch waits while many are. The caller
//! passes the time in.

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

/// While somebody holds rows for long, nobody waits again for so long: each batch that waits is late by the lock
/// time-out.
pub const LONG_LOCK_LASTS: Duration = Duration::from_secs(5);
/// The longest that a batch waits for a lock: others hold the stock of an order for milliseconds, other batches of this
/// worker too, and waiting for them costs less than to come again. Whoever holds it longer holds up only their own orders.
pub const LONGEST_WAIT: Duration = Duration::from_millis(100);
/// The shortest. What is closed in small batches comes seldom, so nobody of ours holds stock for long; and every order
/// that waits in vain is late by as much.
const SHORTEST_WAIT: Duration = Duration::from_millis(15);
/// What every ten orders of the batch add.
const PER_STEP: Duration = Duration::from_millis(5);
const STEP: u32 = 10;

/// How long a batch of so many orders waits for each lock.
#[must_use]
pub fn patience(orders: usize) -> Duration {
    let orders = u32::try_from(orders).unwrap_or(u32::MAX);
    // In steps of ten orders, since each change is a statement.
    let steps = orders.div_ceil(STEP);
    SHORTEST_WAIT.saturating_add(PER_STEP.saturating_mul(steps)).min(LONGEST_WAIT)
}

/// Until one batch has looked or tried, the others pass over: longer than the lock time-out.
const TRIAL: Duration = Duration::from_millis(500);
/// A transaction that was there when a batch had waited in vain, and still is after so long, holds its rows for long.
/// Otherwise they were held by one after the other, and waiting is the way to get them.
pub const SUSPICION: Duration = Duration::from_millis(30);

/// How a batch is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It waits for rows that others hold for an instant.
    Wait,
    /// It asks for the oldest writer first, and says so with [`Contention::looked`].
    Look,
    /// As [`Manner::Wait`], to see whether the rows are free again.
    Try,
    /// It waits for nothing, and closes what it can.
    PassOver,
}

/// What is known about locks of others.
#[derive(Clone, Copy, Debug, Default)]
enum Locks {
    #[default]
    Short,
    /// A batch has waited in vain while this transaction was the oldest writer.
    Suspected {
        until: Instant,
        oldest: i64,
    },
    Long {
        until: Instant,
    },
}

/// Whether somebody holds rows for long.
#[derive(Debug, Default)]
pub struct Contention {
    locks: Locks,
}

impl Contention {
    /// How the next batch is to be closed.
    pub fn manner(&mut self, now: Instant) -> Manner {
        match &mut self.locks {
            Locks::Short => Manner::Wait,
            Locks::Suspected { until, .. } | Locks::Long { until } if now < *until => {
                Manner::PassOver
            }
            Locks::Suspected { until, .. } => {
                *until = now + TRIAL;
                Manner::Look
            }
            Locks::Long { until } => {
                *until = now + TRIAL;
                Manner::Try
            }
        }
    }

    /// A batch has waited in vain; the oldest writer after that, where it is known.
    pub fn waited_in_vain(&mut self, now: Instant, manner: Manner, oldest: Option<i64>) {
        let is_known = !matches!(self.locks, Locks::Short);
        if is_known && manner != Manner::Try {
            // It waited beside the one that said so.
            return;
        }
        self.locks = match oldest {
            Some(oldest) => Locks::Suspected { until: now + SUSPICION, oldest },
            None => Locks::Long { until: now + LONG_LOCK_LASTS },
        };
    }

    /// The oldest writer now, where it is known: how the batch that looked is to be closed.
    pub fn looked(&mut self, now: Instant, oldest: Option<i64>) -> Manner {
        let Locks::Suspected { oldest: suspect, .. } = self.locks else {
            return Manner::PassOver;
        };
        if oldest.is_some_and(|oldest| oldest > suspect) {
            self.locks = Locks::Short;
            return Manner::Wait;
        }
        self.locks = Locks::Long { until: now + LONG_LOCK_LASTS };
        Manner::PassOver
    }

    /// A batch got everything it waited for. One that began before the rows were held says nothing.
    pub fn got_through(&mut self, manner: Manner) {
        if manner == Manner::Try {
            self.locks = Locks::Short;
        }
    }
}
