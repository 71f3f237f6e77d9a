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

use crate::timing::Timing;

/// How long confirms are waited for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Limits {
    /// With none of any event.
    pub(super) silence: Duration,
    /// In all, unless the silence is longer.
    pub(super) claim: Duration,
}

/// Whether the broker has said nothing for too long.
pub(super) struct Silence {
    began: Instant,
    limits: Limits,
    /// When the broker answered for the last time, in ms since it began.
    heard_ms: AtomicU64,
    is_there: watch::Sender<bool>,
}

impl Silence {
    pub(super) fn new(limits: Limits) -> Self {
        let (heard_ms, is_there) = (AtomicU64::new(0), watch::Sender::new(false));
        Self { began: Instant::now(), limits, heard_ms, is_there }
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
            let heard =
                if is_blocked() { self.limits.claim } else { Duration::from_millis(heard_ms) };
            let end = self.began + end(heard, self.limits);
            if Instant::now() >= end {
                break;
            }
            sleep_until(end).await;
        }
        self.is_there.send_replace(true);
    }
}

/// How long after the beginning it is given up, where the last answer came `heard` after it.
fn end(heard: Duration, limits: Limits) -> Duration {
    (heard + limits.silence).min(limits.claim.max(limits.silence))
}

/// How long the next events may be without any confirm, after a time that was too short or not.
pub(super) fn next(silence: Duration, was_too_short: bool, timing: &Timing) -> Duration {
    if was_too_short {
        (silence * 2).min(timing.events_longest_silence)
    } else {
        timing.events_silence
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Otherwise each claim of 2,000 events would be published again and again.
    #[test]
    fn a_slow_broker_gets_more_time_until_it_confirms_again() {
        let timing = Timing::default();
        let mut patience = timing.events_silence;
        let each = [4, 8, 8].map(Duration::from_secs);
        for longer in each {
            patience = next(patience, true, &timing);
            assert_eq!(patience, longer);
        }
        assert_eq!(next(patience, false, &timing), timing.events_silence);
    }

    #[test]
    fn each_answer_gives_the_others_more_time_up_to_ten_seconds() {
        let ms = Duration::from_millis;
        let within = |silence| Limits { silence, claim: ms(10_000) };
        let limits = within(ms(2_000));
        assert_eq!(end(ms(0), limits), ms(2_000));
        assert_eq!(end(ms(1_500), limits), ms(3_500));
        assert_eq!(end(ms(9_000), limits), limits.claim);
        assert_eq!(
            end(ms(0), within(ms(70_000))),
            ms(70_000),
            "where somebody wants to wait for longer"
        );
        assert_eq!(end(ms(69_000), within(ms(70_000))), ms(70_000));
    }
}
