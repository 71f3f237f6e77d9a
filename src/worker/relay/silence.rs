//! When to give up waiting for confirms. They come within milliseconds, as a rule; a queue can also give neither ack nor
//! nack (a quorum queue without its majority), and then others on its channel may get none either.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use tokio::{
    sync::watch,
    time::{Instant, sleep_until},
};

/// Nothing is heard of any event for so long: then some get no confirm, and may keep back those of others.
pub(super) const PATIENCE: Duration = Duration::from_secs(2);
/// The longest patience; with what follows it is less than the database gives a relay.
const MOST_PATIENCE: Duration = Duration::from_secs(8);
/// Other relays wait meanwhile, and the database ends the transaction after 20 s (`sql/outbox_hold.sql`). An order with
/// hundreds of events goes on in the next one.
const LONGEST: Duration = Duration::from_secs(10);

/// Whether the broker has said nothing for too long.
pub(super) struct Silence {
    began: Instant,
    patience: Duration,
    /// When the broker answered for the last time, in ms since it began.
    heard_ms: AtomicU64,
    is_there: watch::Sender<bool>,
}

impl Silence {
    pub(super) fn new(patience: Duration) -> Self {
        let (heard_ms, is_there) = (AtomicU64::new(0), watch::Sender::new(false));
        Self { began: Instant::now(), patience, heard_ms, is_there }
    }

    /// There was an answer.
    pub(super) fn heard(&self) {
        let ms = u64::try_from(self.began.elapsed().as_millis()).unwrap_or(u64::MAX);
        self.heard_ms.fetch_max(ms, Ordering::Relaxed);
    }

    pub(super) fn is_there(&self) -> bool {
        *self.is_there.borrow()
    }

    /// Returns when it is there.
    pub(super) async fn comes(&self) {
        let mut is_there = self.is_there.subscribe();
        // It fails only where the sender is gone, which is here.
        let _closed = is_there.wait_for(|is_there| *is_there).await;
    }

    /// Returns when there was no answer for as long as the patience, or answers have come for long enough. While the broker
    /// blocks the connection none can come: a new one would only send everything once more.
    pub(super) async fn watch(&self, is_blocked: impl Fn() -> bool) {
        loop {
            let heard_ms = self.heard_ms.load(Ordering::Relaxed);
            let heard = if is_blocked() { LONGEST } else { Duration::from_millis(heard_ms) };
            let end = self.began + end(heard, self.patience);
            if Instant::now() >= end {
                break;
            }
            sleep_until(end).await;
        }
        self.is_there.send_replace(true);
    }
}

/// How long after the beginning it is given up, where the last answer came `heard` after it.
fn end(heard: Duration, patience: Duration) -> Duration {
    (heard + patience).min(LONGEST.max(patience))
}

/// The patience with the next events, after one that was too short or not.
pub(super) fn next(patience: Duration, was_too_short: bool) -> Duration {
    if was_too_short { (patience * 2).min(MOST_PATIENCE) } else { PATIENCE }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise each claim of 2,000 events would be published again and again.
    #[test]
    fn a_slow_broker_gets_more_time_until_it_confirms_again() {
        let mut patience = PATIENCE;
        let each = [4, 8, 8].map(Duration::from_secs);
        for longer in each {
            patience = next(patience, true);
            assert_eq!(patience, longer);
        }
        assert_eq!(next(patience, false), PATIENCE);
    }

    #[test]
    fn each_answer_gives_the_others_more_time_up_to_ten_seconds() {
        let ms = Duration::from_millis;
        let patience = PATIENCE;
        assert_eq!(end(ms(0), patience), ms(2_000));
        assert_eq!(end(ms(1_500), patience), ms(3_500));
        assert_eq!(end(ms(9_000), patience), LONGEST);
        assert_eq!(end(ms(0), ms(70_000)), ms(70_000), "where somebody wants to wait for longer");
        assert_eq!(end(ms(69_000), ms(70_000)), ms(70_000));
    }
}
