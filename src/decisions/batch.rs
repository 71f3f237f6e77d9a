//! When a batch is closed: it grows while those before it are at the database. The caller passes the time in.

use std::time::{Duration, Instant};

/// The batches that are being closed, how many may be at once, and how long a batch waits for more meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// At the database.
    pub closing: usize,
    /// At most.
    pub at_once: usize,
    /// After it was due, its first message waits for this long for others.
    pub age: Duration,
}

impl Batches {
    /// When a batch whose first message is due at `first` is closed; none while that has to wait for another one. Nothing
    /// waits for company if the database is idle, or if the batch is full.
    #[must_use]
    pub fn next(self, first: Instant, is_full: bool) -> Option<Instant> {
        match self.closing {
            0 => Some(first),
            closing if closing >= self.at_once => None,
            _ if is_full => Some(first),
            _ => Some(first + self.age),
        }
    }
}
