//! Of the orders of an effect that stay busy, the one that may wait for its stock for longer. Meanwhile it holds the stock that comes
//! before the one that it waits for: so there is one at a time, and none for a while after one that has waited without success.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::backoff::jitter;

/// After a turn that has failed: somebody keeps a row locked.
const REST: Duration = Duration::from_secs(3);
/// An order that was busy for this long may have a turn, and each further one after twice as long: one that somebody keeps locked
/// does not take the turns of the others.
const FIRST_AFTER: Duration = Duration::from_millis(500);

/// How long an order has to be busy that has had so many turns.
pub(super) fn busy_for(turns: u32) -> Duration {
    FIRST_AFTER.saturating_mul(1 << turns.min(10))
}

/// From when on there is the next one.
#[derive(Debug, Default)]
pub(super) struct Turns(Arc<Mutex<Option<Instant>>>);

impl Turns {
    pub(super) fn next(&self, now: Instant) -> Option<Turn> {
        let from = Arc::clone(&self.0).try_lock_owned().ok()?;
        from.is_none_or(|from| from <= now).then(|| Turn(from))
    }
}

/// It ends when it is dropped.
#[derive(Debug)]
pub(crate) struct Turn(OwnedMutexGuard<Option<Instant>>);

impl Turn {
    pub(super) fn failed(mut self, now: Instant) {
        *self.0 = Some(now + jitter(REST));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_is_one_turn_at_a_time_and_none_for_a_while_after_one_that_failed() {
        let (turns, now) = (Turns::default(), Instant::now());
        let turn = turns.next(now).expect("the first one");
        assert!(turns.next(now).is_none(), "one at a time");
        drop(turn);
        turns.next(now).expect("the second one").failed(now);
        assert!(turns.next(now).is_none(), "it rests");
        assert!(turns.next(now + REST).is_some());
    }

    #[test]
    fn each_further_turn_of_an_order_comes_after_twice_as_long() {
        for turns in 0..9 {
            assert_eq!(busy_for(turns + 1), 2 * busy_for(turns));
        }
        assert_eq!(busy_for(u32::MAX), busy_for(10));
    }
}
