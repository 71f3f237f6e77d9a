//! Full jitter: a random wait below a bound that doubles, so that many workers do not come back at once.

use std::time::Duration;

const FIRST: Duration = Duration::from_millis(200);
/// Closing goes on so long after an outage at the latest, and the time of one attempt.
pub(super) const LONGEST: Duration = Duration::from_secs(5);

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

    /// Like [`Backoff::pause`], and no shorter than `shortest`.
    pub(super) fn pause_after(&mut self, shortest: Duration) -> Duration {
        (shortest + self.pause()).min(LONGEST)
    }
}

#[cfg(test)]
mod tests {
    use super::{Backoff, Duration, FIRST, LONGEST};

    /// Enough that some of the random ones come close to their bounds.
    const ATTEMPTS: usize = 10_000;

    #[test]
    fn no_pause_is_longer_than_five_seconds_however_long_the_outage() {
        assert_eq!(LONGEST, Duration::from_secs(5));
        let mut backoff = Backoff::default();
        let pauses: Vec<Duration> = (0..ATTEMPTS).map(|_| backoff.pause()).collect();
        assert!(pauses[0] <= FIRST);
        for (pause, attempt) in pauses.iter().zip(0..) {
            let bound = FIRST.saturating_mul(1 << attempt.min(10)).min(LONGEST);
            assert!(*pause <= bound, "attempt {attempt}: {pause:?}");
        }
        // They are spread over all of it: workers that lost the same broker do not come back together.
        let late = pauses.iter().filter(|pause| **pause > LONGEST / 2).count();
        assert!((ATTEMPTS / 3..ATTEMPTS * 2 / 3).contains(&late), "{late}");
    }

    #[test]
    fn a_shortest_pause_does_not_make_the_longest_one_longer() {
        let (mut backoff, shortest) = (Backoff::default(), Duration::from_secs(1));
        for _ in 0..ATTEMPTS {
            let pause = backoff.pause_after(shortest);
            assert!((shortest..=LONGEST).contains(&pause), "{pause:?}");
        }
    }
}
