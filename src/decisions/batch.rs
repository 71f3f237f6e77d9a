//! When a batch is closed: it grows while earlier batches are at the database. The caller passes the time.

use std::time::{Duration, Instant};

/// The number of orders that make a burst if they are due at the same time.
pub const MANY: usize = 500;
/// If a burst closes nothing for this long, the messages stop waiting for it.
const WAITED_FOR: Duration = Duration::from_millis(500);

/// Progress of a burst.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BurstProgress {
    /// When the burst last closed an order; at first, when it was requested.
    pub moved: Instant,
    /// When the last completed pass began. The pass closed the orders that were due then, or left them to their messages.
    pub passed: Option<Instant>,
}

impl BurstProgress {
    /// When messages stop waiting for the burst, if it closes nothing until then.
    pub fn given_up_at(self) -> Instant {
        self.moved + WAITED_FOR
    }
}

/// The batches that are being closed, their limit, and how long a batch waits for more messages.
#[derive(Clone, Copy, Debug)]
pub struct BatchPolicy {
    /// Batches at the database.
    pub closing: usize,
    /// Limit of batches at the database.
    pub at_once: usize,
    /// How long the first due message waits for others while the database is idle.
    pub linger: Duration,
    /// How long the first due message waits for others while earlier batches are being closed.
    pub age: Duration,
    /// The burst that messages wait for: a batch is closed after a pass that began when its first message was due, or later.
    pub burst: Option<BurstProgress>,
}

impl BatchPolicy {
    /// When a batch whose first message is due at `first` is closed; `None` while `at_once` batches are at the database. A full
    /// batch waits for no more messages.
    pub fn next(self, first: Instant, is_full: bool) -> Option<Instant> {
        let at = match self.closing {
            closing if closing >= self.at_once => return None,
            _ if is_full => first,
            0 => first + self.linger,
            _ => first + self.age.max(self.linger),
        };
        let burst = self.burst.filter(|burst| burst.passed < Some(first));
        Some(burst.map_or(at, |burst| at.max(burst.given_up_at())))
    }
}
