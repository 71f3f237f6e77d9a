//! Lets one busy order of an effect at a time wait longer for the locks of its stock. While it waits, it holds the locks that
//! it already has. So there is one turn at a time, and a pause after a turn that has waited without success.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::backoff::jitter;

/// Pause after a turn that waited without success, because another session keeps a row locked; the pause doubles after each
/// further such turn.
const REST: Duration = Duration::from_secs(3);
/// Limit of that pause.
const LONGEST_REST: Duration = Duration::from_secs(30);
/// How long an order must be busy for its first turn. The time doubles with each turn, so that an order with a lasting lock
/// gets ever fewer turns.
const FIRST_AFTER: Duration = Duration::from_millis(500);

/// How long an order with `turns` turns must be busy for the next one: up to 16 s.
pub(super) fn busy_for(turns: u32) -> Duration {
    FIRST_AFTER * (1 << turns.min(5))
}

#[derive(Debug, Default)]
struct Backoff {
    until: Option<Instant>,
    /// Permits in a row that waited without success.
    failed: u32,
}

#[derive(Debug, Default)]
pub(super) struct ContentionLimiter(Arc<Mutex<Backoff>>);

impl ContentionLimiter {
    pub(super) fn next(&self, now: Instant) -> Option<BlockingPermit> {
        let rest = Arc::clone(&self.0).try_lock_owned().ok()?;
        rest.until.is_none_or(|until| until <= now).then(|| BlockingPermit(rest))
    }
}

/// The exclusive right to wait longer; it ends when it is dropped.
#[derive(Debug)]
pub(crate) struct BlockingPermit(OwnedMutexGuard<Backoff>);

impl BlockingPermit {
    /// Ends the turn. A pause follows if the order was not closed and has waited for the whole time-out.
    pub(super) fn end(mut self, is_closed: bool, has_waited: bool, now: Instant) {
        if is_closed {
            *self.0 = Backoff::default();
        } else if has_waited {
            let rest = REST.saturating_mul(1 << self.0.failed.min(10)).min(LONGEST_REST);
            *self.0 = Backoff { until: Some(now + jitter(rest)), failed: self.0.failed + 1 };
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_turn_at_a_time_and_none_for_a_while_after_one_that_failed() {
        let (turns, mut now) = (ContentionLimiter::default(), Instant::now());
        let turn = turns.next(now).expect("the first one");
        assert!(turns.next(now).is_none(), "one at a time");
        drop(turn);
        turns.next(now).expect("the second one").end(false, false, now);
        for rest in [3, 6, 12, 24, 30, 30].map(Duration::from_secs) {
            turns.next(now).expect("the next one").end(false, true, now);
            assert!(turns.next(now + rest / 2).is_none(), "it rests");
            now += rest;
        }
        turns.next(now).expect("one that closes its order").end(true, true, now);
        turns.next(now).expect("at once").end(false, true, now);
        assert!(turns.next(now + REST).is_some(), "the first rest again");
    }

    #[test]
    fn each_further_turn_of_an_order_comes_after_twice_as_long() {
        for turns in 0..5 {
            assert_eq!(busy_for(turns + 1), 2 * busy_for(turns));
        }
        assert_eq!(busy_for(u32::MAX), busy_for(5));
    }
}
