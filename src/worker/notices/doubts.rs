//! Places whose messages the broker does not confirm: a full queue gives a nack, a quorum queue without its majority nothing. The
//! others go on. The caller passes the time in.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use crate::timing::Timing;

/// The places in doubt.
#[derive(Debug)]
pub(super) struct Doubts {
    places: BTreeMap<String, Doubt>,
    first_pause: Duration,
    longest_pause: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Doubt {
    /// None are published before.
    until: Instant,
    /// Whether there is a message without a confirm that was not given up.
    is_out: bool,
    /// How long the next failure keeps the others back.
    pause: Duration,
}

impl Doubts {
    pub(super) const fn new(timing: &Timing) -> Self {
        let (first_pause, longest_pause) =
            (timing.level_doubted_first, timing.level_doubted_longest);
        Self { places: BTreeMap::new(), first_pause, longest_pause }
    }

    /// Whether a message may be published there. In doubt one may after each pause; it is given up at `end`.
    pub(super) fn may_try(&mut self, place: &str, now: Instant, end: Instant) -> bool {
        let Some(doubt) = self.places.get_mut(place) else { return true };
        let may = now >= doubt.until;
        if may {
            (doubt.until, doubt.is_out) = (end, true);
        }
        may
    }

    /// A message has had no confirm for a while, and is given up at `end`.
    pub(super) fn waits(&mut self, place: &str, end: Instant) {
        let doubt = Doubt { until: end, is_out: true, pause: self.first_pause };
        self.places.entry(place.to_owned()).or_insert(doubt);
    }

    /// Messages were given up, or refused. Those that were on their way together count as one.
    pub(super) fn failed(&mut self, place: &str, now: Instant) {
        self.waits(place, now);
        let Some(doubt) = self.places.get_mut(place) else { return };
        if std::mem::take(&mut doubt.is_out) {
            doubt.until = now + doubt.pause;
            doubt.pause = (doubt.pause * 2).min(self.longest_pause);
        }
    }

    /// A message was confirmed.
    pub(super) fn confirmed(&mut self, place: &str) {
        self.places.remove(place);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);
    const GIVEN_UP: Duration = Duration::from_secs(10);

    #[test]
    fn a_place_that_answers_takes_any_number() {
        let (mut doubts, now) = (Doubts::new(&Timing::default()), Instant::now());
        assert!((0..3).all(|_| doubts.may_try("a", now, now + GIVEN_UP)));
        doubts.waits("b", now + GIVEN_UP);
        assert!(doubts.may_try("a", now, now + GIVEN_UP));
        assert!(!doubts.may_try("b", now + SECOND, now + GIVEN_UP));
        doubts.confirmed("b");
        assert!((0..3).all(|_| doubts.may_try("b", now + SECOND, now + GIVEN_UP)));
    }

    /// So many copies an outage of a queue makes of each notice that is tried, at the most.
    #[test]
    fn a_place_in_doubt_is_tried_about_once_a_minute_and_with_one_message() {
        let (mut doubts, begin) = (Doubts::new(&Timing::default()), Instant::now());
        doubts.waits("a", begin + GIVEN_UP);
        let (mut tries, mut given_up) = (Vec::new(), Some(begin + GIVEN_UP));
        for now in (1..3_600).map(|seconds| begin + SECOND * seconds) {
            if given_up.is_some_and(|at| now >= at) {
                given_up = None;
                // All of those that were on their way, one after the other.
                (0..100).for_each(|_| doubts.failed("a", now));
            }
            let new = (0..5).filter(|_| doubts.may_try("a", now, now + GIVEN_UP)).count();
            assert!(new <= 1);
            if new == 1 {
                tries.push((now - begin).as_secs());
                given_up = Some(now + GIVEN_UP);
            }
        }
        assert_eq!(tries[..5], [15, 35, 65, 115, 185]);
        assert!(tries.len() < 60, "{}", tries.len());
    }
}
