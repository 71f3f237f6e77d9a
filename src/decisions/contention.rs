//! Whether somebody holds rows that many orders need. The caller passes the time in.

use std::time::{Duration, Instant};

/// After a lock that was waited for in vain, nobody waits again for so long: each batch that waits is late by the lock
/// time-out.
pub const LASTS: Duration = Duration::from_secs(5);
/// The longest that a batch waits for a lock: others hold the stock of an order for milliseconds, other batches of this
/// worker too, and waiting for them costs less than to come again. Whoever holds it longer holds up only their own orders.
pub const LONGEST: Duration = Duration::from_millis(100);
/// The shortest. What is closed in small batches comes seldom, so nobody of ours holds stock for long; and every order
/// that waits in vain is late by as much.
const SHORTEST: Duration = Duration::from_millis(20);
/// What an order of the batch adds.
const PER_ORDER: Duration = Duration::from_micros(500);

/// How long a batch of so many orders waits for each lock.
#[must_use]
pub fn patience(orders: usize) -> Duration {
    let orders = u32::try_from(orders).unwrap_or(u32::MAX);
    SHORTEST.saturating_add(PER_ORDER.saturating_mul(orders)).min(LONGEST)
}

/// Then one batch waits, and the others do not for so long: longer than the lock time-out.
const TRIAL: Duration = Duration::from_millis(500);

/// How a batch is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Manner {
    /// It waits for rows that others hold for an instant.
    Wait,
    /// As [`Manner::Wait`], to see whether the rows are free again.
    Try,
    /// It waits for nothing, and closes what it can.
    PassOver,
}

/// What is known about locks of others.
#[derive(Debug, Default)]
pub struct Contention {
    until: Option<Instant>,
}

impl Contention {
    /// How the next batch is to be closed.
    pub fn manner(&mut self, now: Instant) -> Manner {
        match self.until {
            None => Manner::Wait,
            Some(until) if now < until => Manner::PassOver,
            Some(_) => {
                self.until = Some(now + TRIAL);
                Manner::Try
            }
        }
    }

    /// A batch has waited in vain.
    pub fn waited_in_vain(&mut self, now: Instant) {
        self.until = Some(now + LASTS);
    }

    /// A batch got everything it waited for. One that began before the rows were held says nothing.
    pub fn got_through(&mut self, manner: Manner) {
        if manner == Manner::Try {
            self.until = None;
        }
    }
}
