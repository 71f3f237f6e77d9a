//! When a batch is closed: it grows while those before it are at the database. The caller passes the time in.

use std::time::{Duration, Instant};

/// Orders that are due at once, and are a burst.
pub const MANY: usize = 500;
/// The messages do not wait for a burst that has closed nothing for this long.
const WAITED_FOR: Duration = Duration::from_millis(500);

/// How far a burst is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Running {
    /// When it has closed something last; at first when it was asked for.
    pub moved: Instant,
    /// When its last pass began that has ended: what was due then is closed, or left to its message.
    pub passed: Option<Instant>,
}

impl Running {
    /// When it will be waited for no longer, if it closes nothing until then.
    pub fn given_up_at(self) -> Instant {
        self.moved + WAITED_FOR
    }
}

/// The batches that are being closed, how many may be at once, and how long a batch waits for more meanwhile.
#[derive(Clone, Copy, Debug)]
pub struct Batches {
    /// At the database.
    pub closing: usize,
    /// At most.
    pub at_once: usize,
    /// After it was due, its first message waits for this long for others while the database is idle.
    pub linger: Duration,
    /// The same while earlier batches are being closed.
    pub age: Duration,
    /// The burst that they wait for: a pass of it that begins when they are due, or later.
    pub burst: Option<Running>,
}

impl Batches {
    /// When a batch whose first message is due at `first` is closed; none while that has to wait for another one. Nothing
    /// waits for company if the batch is full.
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
