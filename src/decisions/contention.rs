//! Whether somebody holds rows that many orders need, and for long. The caller passes the time in.

use std::time::{Duration, Instant};

/// While somebody holds rows for long, nobody waits again for so long: each batch that waits is late by the lock
/// time-out.
pub const LASTS: Duration = Duration::from_secs(5);
/// The longest that a batch waits for a lock: others hold the stock of an order for milliseconds, other batches of this
/// worker too, and waiting for them costs less than to come again. Whoever holds it longer holds up only their own orders.
pub const LONGEST: Duration = Duration::from_millis(100);
/// The shortest. What is closed in small batches comes seldom, so nobody of ours holds stock for long; and every order
/// that waits in vain is late by as much.
const SHORTEST: Duration = Duration::from_millis(15);
/// What every ten orders of the batch add.
const PER_STEP: Duration = Duration::from_millis(5);
const STEP: u32 = 10;

/// How long a batch of so many orders waits for each lock.
#[must_use]
pub fn patience(orders: usize) -> Duration {
    let orders = u32::try_from(orders).unwrap_or(u32::MAX);
    // In steps of ten orders, since each change is a statement.
    let steps = orders.div_ceil(STEP);
    SHORTEST.saturating_add(PER_STEP.saturating_mul(steps)).min(LONGEST)
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
            None => Locks::Long { until: now + LASTS },
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
        self.locks = Locks::Long { until: now + LASTS };
        Manner::PassOver
    }

    /// A batch got everything it waited for. One that began before the rows were held says nothing.
    pub fn got_through(&mut self, manner: Manner) {
        if manner == Manner::Try {
            self.locks = Locks::Short;
        }
    }
}
