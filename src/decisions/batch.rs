//! When a batch is closed: it grows while those before it are at the database, and in a burst. The caller passes the time in.

use std::time::{Duration, Instant};

/// Orders that are due at once, or one after the other within [`TOGETHER`], and are a burst.
pub const MANY: usize = 500;
/// A steady load that brings [`MANY`] orders within it (10,000 per second) is closed like a burst.
pub const TOGETHER: Duration = Duration::from_millis(50);

/// The batches that are being closed, how many may be at once, and how long a batch waits for more meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// At the database.
    pub closing: usize,
    /// At most.
    pub at_once: usize,
    /// After it was due, its first message waits for this long for others.
    pub age: Duration,
    /// Whether the orders come in a burst, by [`Coming`].
    pub in_burst: bool,
}

impl Batches {
    /// When a batch whose first message is due at `first` is closed; none while that has to wait for another one. Nothing
    /// waits for company if the database is idle and no burst comes, or if the batch is full.
    #[must_use]
    pub fn next(self, first: Instant, is_full: bool) -> Option<Instant> {
        match self.closing {
            closing if closing >= self.at_once => None,
            0 if !self.in_burst => Some(first),
            _ if is_full => Some(first),
            _ => Some(first + self.age),
        }
    }
}

/// How quickly due orders come: a broker that is busy with a burst hands it on a few messages at a time.
#[derive(Clone, Copy, Debug, Default)]
pub struct Coming {
    began: Option<Instant>,
    orders: usize,
    in_burst_until: Option<Instant>,
}

impl Coming {
    /// So many more have come.
    pub fn add(&mut self, orders: usize, now: Instant) {
        if self.began.is_none_or(|began| now.saturating_duration_since(began) > TOGETHER) {
            (self.began, self.orders) = (Some(now), 0);
        }
        self.orders += orders;
        if self.orders >= MANY {
            self.in_burst_until = Some(now + TOGETHER);
        }
    }

    /// Whether many came of late.
    #[must_use]
    pub fn in_burst(&self, now: Instant) -> bool {
        self.in_burst_until.is_some_and(|until| now < until)
    }
}
