//! Copies that are confirmed, until a look at the broker says that their level is there: a confirm does not say which queue
//! took them, and the alternate exchange parks what a level that was retired does not take.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// Their originals are unacked; more of them would only fill channels.
const MOST: usize = 10_000;

/// Where a copy is that was confirmed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arrival {
    /// Where it was sent to.
    There,
    /// Its level was gone: something else took it.
    Gone,
    /// The broker could not be asked, or not in time.
    Unknown,
}

/// In the order of their confirms.
#[derive(Debug)]
pub(super) struct ConfirmedCopies<T> {
    /// It is believed then, although no look has spoken of it.
    believed_after: Duration,
    waiting: VecDeque<(Instant, T)>,
}

impl<T> ConfirmedCopies<T> {
    pub(super) const fn new(believed_after: Duration) -> Self {
        Self { believed_after, waiting: VecDeque::new() }
    }

    /// Confirmed at `now`.
    pub(super) fn add(&mut self, now: Instant, copy: T) {
        self.waiting.push_back((now, copy));
    }

    /// Those that a look which began at `began` speaks of: they were confirmed before.
    pub(super) fn before(&mut self, began: Instant) -> Vec<T> {
        let count = self.waiting.partition_point(|(confirmed, _)| *confirmed < began);
        self.waiting.drain(..count).map(|(_, copy)| copy).collect()
    }

    /// Those that have waited for long enough, and the oldest where there are too many.
    pub(super) fn given_up(&mut self, now: Instant) -> Vec<T> {
        let is_old =
            |(confirmed, _): &(Instant, T)| now.duration_since(*confirmed) >= self.believed_after;
        let old = self.waiting.partition_point(is_old);
        let count = old.max(self.waiting.len().saturating_sub(MOST));
        self.waiting.drain(..count).map(|(_, copy)| copy).collect()
    }

    /// When one is to be given up.
    pub(super) fn until(&self) -> Option<Instant> {
        let (oldest, _) = self.waiting.front()?;
        Some(if self.waiting.len() > MOST { *oldest } else { *oldest + self.believed_after })
    }

    pub(super) fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const LONGEST: Duration = Duration::from_secs(10);

    #[test]
    fn only_a_look_that_began_after_the_confirm_counts() {
        let (mut copies, began) = (ConfirmedCopies::new(LONGEST), Instant::now());
        let ms = |ms| began + Duration::from_millis(ms);
        copies.add(ms(1), 'a');
        copies.add(ms(3), 'b');
        assert!(copies.before(began).is_empty());
        assert!(
            copies.before(ms(1)).is_empty(),
            "at the same instant, nobody knows which was first"
        );
        assert_eq!(copies.before(ms(2)), ['a']);
        assert!(copies.given_up(ms(9_000)).is_empty() && !copies.is_empty());
        assert_eq!(copies.until(), Some(ms(3) + LONGEST));
        assert_eq!(copies.given_up(ms(3) + LONGEST), ['b']);
        assert_eq!(copies.until(), None);
    }

    #[test]
    fn too_many_are_given_up_at_once() {
        let (mut copies, now) = (ConfirmedCopies::new(LONGEST), Instant::now());
        for n in 0..MOST + 2 {
            copies.add(now, n);
        }
        assert_eq!(copies.until(), Some(now));
        assert_eq!(copies.given_up(now), [0, 1]);
        assert_eq!(copies.until(), Some(now + LONGEST));
    }

    proptest! {
        /// Each comes out once, in the order of the confirms, and none for good stays.
        #[test]
        fn none_is_lost_and_none_comes_twice(looks in prop::collection::vec((1_usize..9, 0_u64..20_000, any::<bool>()), 1..60)) {
            let (mut copies, start) = (ConfirmedCopies::new(LONGEST), Instant::now());
            let (mut now, mut added, mut out) = (start, 0_usize, Vec::new());
            for (more, passes, looked) in looks {
                for _ in 0..more {
                    copies.add(now, added);
                    added += 1;
                }
                now += Duration::from_millis(passes);
                out.extend(if looked { copies.before(now) } else { copies.given_up(now) });
                prop_assert!(copies.until().is_none_or(|until| until + Duration::from_secs(20) > now));
            }
            out.extend(copies.given_up(now + LONGEST));
            prop_assert!(copies.is_empty());
            prop_assert_eq!(out, (0..added).collect::<Vec<_>>());
        }
    }
}
