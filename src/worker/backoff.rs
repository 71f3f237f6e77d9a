//! Back-off with full jitter: a random wait below a bound that doubles, so that many workers do not return at once.

use std::time::{Duration, Instant};

use crate::timing::Timing;

/// The waits between attempts. Their number is unlimited, like the duration of an outage.
#[derive(Clone, Debug)]
pub(crate) struct Backoff {
    bound: Duration,
    longest: Duration,
}

impl Backoff {
    pub(crate) fn new(timing: &Timing) -> Self {
        Self { bound: timing.backoff_first, longest: timing.backoff_longest }
    }

    /// Wait before the next attempt.
    pub(crate) fn pause(&mut self) -> Duration {
        let wait = self.bound.mul_f64(rand::random::<f64>());
        self.bound = (self.bound * 2).min(self.longest);
        wait
    }

    /// Whether the waits have reached their limit.
    pub(super) fn is_longest(&self) -> bool {
        self.bound >= self.longest
    }

    /// Like [`Backoff::pause`], and at least `shortest`.
    pub(super) fn pause_after(&mut self, shortest: Duration) -> Duration {
        (shortest + self.pause()).min(self.longest)
    }
}

/// The random part of a pause.
const PART: f64 = 0.25;

/// A random pause between three quarters of `longest` and `longest`.
pub(super) fn jitter(longest: Duration) -> Duration {
    longest.mul_f64(1.0 - PART * rand::random::<f64>())
}

/// Waits until an instant; forever if there is none. Returns at once if the instant is over, because a timer takes up to a
/// millisecond more.
pub(super) async fn reached(at: Option<Instant>) {
    match at {
        Some(at) if at <= Instant::now() => {}
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
}

/// First pause before a refused message is published again; it doubles.
const FIRST_PAUSE: Duration = Duration::from_millis(200);

/// Pause after `failures` failures of one message, at most `longest`.
pub(super) fn pause_after(failures: u32, longest: Duration) -> Duration {
    FIRST_PAUSE.saturating_mul(1 << failures.min(10)).min(longest)
}

#[cfg(test)]
mod tests {
    use super::{Backoff, Duration, FIRST_PAUSE, Timing, pause_after};

    /// Enough attempts that some random waits come close to their bounds.
    const ATTEMPTS: usize = 10_000;

    #[test]
    fn no_pause_is_longer_than_the_longest_however_long_the_outage() {
        let timing = Timing::default();
        let (first, longest) = (timing.backoff_first, timing.backoff_longest);
        let mut backoff = Backoff::new(&timing);
        let pauses: Vec<Duration> = (0..ATTEMPTS).map(|_| backoff.pause()).collect();
        assert!(pauses[0] <= first);
        for (pause, attempt) in pauses.iter().zip(0..) {
            let bound = first.saturating_mul(1 << attempt.min(10)).min(longest);
            assert!(*pause <= bound, "attempt {attempt}: {pause:?}");
        }
        // The pauses are spread over the whole range: workers that lost the same broker do not return together.
        let late = pauses.iter().filter(|pause| **pause > longest / 2).count();
        assert!((ATTEMPTS / 3..ATTEMPTS * 2 / 3).contains(&late), "{late}");
    }

    #[test]
    fn a_shortest_pause_does_not_make_the_longest_one_longer() {
        let timing = Timing::default();
        let (mut backoff, shortest) = (Backoff::new(&timing), Duration::from_secs(1));
        for _ in 0..ATTEMPTS {
            let pause = backoff.pause_after(shortest);
            assert!((shortest..=timing.backoff_longest).contains(&pause), "{pause:?}");
        }
    }

    #[test]
    fn the_pauses_of_a_message_that_is_refused_for_ever_grow_up_to_the_longest() {
        let longest = Duration::from_secs(5);
        let pause_after = |failures| pause_after(failures, longest);
        assert_eq!(pause_after(0), FIRST_PAUSE);
        for failures in 0..1_000 {
            assert!(pause_after(failures) <= pause_after(failures + 1));
            assert!(pause_after(failures) <= longest);
        }
        assert_eq!(pause_after(u32::MAX), longest);
    }
}
