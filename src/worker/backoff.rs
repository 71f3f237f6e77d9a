//! Full jitter: a random wait below a bound that doubles, so that many workers do not come back at once.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
const LONGEST: Duration = Duration::from_secs(5);

/// The waits between attempts. There is no limit to their number: an outage ends when it ends.
#[derive(Debug)]
pub(crate) struct Backoff {
    bound: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self { bound: FIRST }
    }
}

impl Backoff {
    /// How long to wait before the next attempt: up to 0.2 s at first, up to 5 s in the end.
    pub(crate) fn pause(&mut self) -> Duration {
        let wait = self.bound.mul_f64(rand::random::<f64>());
        self.bound = (self.bound * 2).min(LONGEST);
        wait
    }
}
