//! Early notices wait by the database's clock.

use std::time::{Duration, Instant};

use overdue::internals::store::clock::ClockEstimate;
use proptest::prelude::*;

proptest! {
    /// A notice never leaves early by the other clock, and late only by a round trip and the clocks' drift.
    #[test]
    fn what_is_held_by_another_clock_ends_when_that_clock_says_so(
        ahead_us in -400_000_000_000_i64..400_000_000_000,
        ppm in -50_i64..50,
        trips in prop::collection::vec((0_u64..20_000, 0_u64..20_000, 0_u64..5_000_000), 1..8),
        due_us in 0_i64..60_000_000,
    ) {
        let began = Instant::now() + Duration::from_hours(24);
        let there = |us: i64| us + ahead_us + us * ppm / 1_000_000;
        let at = |us: i64| began + Duration::from_micros(us.unsigned_abs());
        let (mut now, mut known) = (0_i64, None::<ClockEstimate>);
        for (out_us, back_us, pause_us) in &trips {
            let sent = now;
            let read = sent + i64::try_from(*out_us)?;
            let received = read + i64::try_from(*back_us)?;
            let reading = ClockEstimate::of_reading(at(sent), at(received), there(read));
            known = Some(known.map_or(reading, |known| known.and(reading)));
            now = received + i64::try_from(*pause_us)?;
        }
        let due = now + due_us;
        let surely = known.expect("a reading").surely(there(due)).expect("in reach");
        prop_assert!(surely + Duration::from_micros(2) >= at(due), "early by {:?}", at(due) - surely);
        // Twice half a round trip of at most 40 ms, and twice 50 millionths of 90 s.
        prop_assert!(surely <= at(due) + Duration::from_millis(50), "late by {:?}", surely - at(due));
    }

    /// The next reading shows the change of either clock.
    #[test]
    fn a_clock_that_is_set_is_believed_at_the_next_reading(
        step_us in prop_oneof![-400_000_000_i64..-50_000, 50_000_i64..400_000_000],
        trip_us in 0_u64..20_000,
    ) {
        let began = Instant::now() + Duration::from_hours(24);
        let at = |us: u64| began + Duration::from_micros(us);
        let before = ClockEstimate::of_reading(at(0), at(0), 1_000_000_000);
        let sent = 5_000_000;
        let shown = 1_000_000_000 + 5_000_000 + i64::try_from(trip_us / 2)? + step_us;
        let reading = ClockEstimate::of_reading(at(sent), at(sent + trip_us), shown);
        let after = before.and(reading);
        let surely = after.surely(shown + 1_000_000).expect("in reach");
        let truth = at(sent + trip_us / 2 + 1_000_000);
        prop_assert!(surely >= truth && surely <= truth + Duration::from_millis(21));
        // A notice that waits moves forward by the step; a clock that was set back does not prolong the wait.
        prop_assert!(before.step_us(reading).abs_diff(step_us) <= 1);
    }
}

#[test]
fn what_is_never_due_is_out_of_reach() {
    let now = Instant::now();
    let clock = ClockEstimate::of_reading(now, now, 0);
    let years = Duration::from_hours(24 * 365 * 1_000);
    assert!(clock.surely(i64::MAX).is_none_or(|at| at > now + years));
    assert!(clock.surely(i64::MIN).is_none_or(|at| at < now));
    assert_eq!(ClockEstimate::of_reading(now, now, i64::MAX).surely(i64::MIN), None);
}
