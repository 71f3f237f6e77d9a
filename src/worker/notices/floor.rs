//! The row above which a pass begins: where something keeps an old snapshot (a backup), every pass would read what is left of
//! the rows that are gone, and what the broker does not take would be read by each pass.
//!
//! A row with a smaller number can still come, since its transaction was open when a greater one was read. So the floor is a
//! minute old, and what was below it after all is found by a look at everything.

use std::time::{Duration, Instant};

/// How old the floor is, and the longest time between two looks at everything.
const WHOLE_EVERY: Duration = Duration::from_mins(1);
/// The shortest, while the broker does not take some.
const LEFT_EVERY: Duration = Duration::from_secs(1);
/// What is left takes one of so many parts of the time.
const PARTS: u32 = 5;

/// Where passes begin. The caller passes the time in.
#[derive(Debug, Default)]
pub(super) struct Floor {
    row: i64,
    /// The last row of a pass, and when that pass began.
    next: Option<(i64, Instant)>,
    whole_at: Option<Instant>,
}

impl Floor {
    /// After which row a pass that begins `now` looks; 0 if it looks at everything.
    pub(super) fn begin(&mut self, now: Instant) -> i64 {
        if self.whole_at.is_none_or(|at| now >= at) {
            self.whole_at = Some(now + WHOLE_EVERY);
            return 0;
        }
        if let Some((row, at)) = self.next
            && now >= at + WHOLE_EVERY
        {
            (self.row, self.next) = (row, None);
        }
        self.row
    }

    /// A pass that began at `began` has read every row up to `row`. One below the floor: somebody has set the sequence back.
    pub(super) fn passed(&mut self, began: Instant, row: i64) {
        self.row = self.row.min(row);
        self.next.get_or_insert((row, began));
    }

    /// A look at everything, from `began` until `now`, has left some.
    pub(super) fn left(&mut self, began: Instant, now: Instant) {
        let pause = (PARTS * (now - began)).clamp(LEFT_EVERY, WHOLE_EVERY);
        self.whole_at = Some(began + pause);
    }

    /// The next pass looks at everything.
    pub(super) const fn forget(&mut self) {
        self.whole_at = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn a_pass_begins_above_the_row_that_was_the_last_a_minute_ago() {
        let begin = Instant::now();
        let mut floor = Floor::default();
        assert_eq!(floor.begin(begin), 0);
        floor.passed(begin, 500);
        floor.passed(begin + SECOND, 700);
        assert_eq!(floor.begin(begin + SECOND * 59), 0);
        floor.begin(begin + WHOLE_EVERY);
        assert_eq!(floor.begin(begin + WHOLE_EVERY), 500);
        floor.passed(begin + WHOLE_EVERY, 900);
        assert_eq!(floor.begin(begin + SECOND * 119), 500);
        floor.begin(begin + WHOLE_EVERY * 2);
        assert_eq!(floor.begin(begin + WHOLE_EVERY * 2), 900);
        // The sequence begins again at 1.
        floor.passed(begin + WHOLE_EVERY * 2, 3);
        assert_eq!(floor.begin(begin + WHOLE_EVERY * 2), 3);
    }

    #[test]
    fn everything_is_looked_at_once_a_minute_and_on_request() {
        let begin = Instant::now();
        let mut floor = Floor::default();
        floor.begin(begin);
        floor.passed(begin, 5);
        assert_eq!(floor.begin(begin + WHOLE_EVERY), 0);
        assert_eq!(floor.begin(begin + WHOLE_EVERY), 5);
        floor.forget();
        assert_eq!(floor.begin(begin + WHOLE_EVERY), 0);
        assert_eq!(floor.begin(begin + WHOLE_EVERY), 5);
    }

    #[test]
    fn what_is_left_is_read_again_after_a_second_or_when_reading_it_took_a_fifth_of_the_time() {
        let begin = Instant::now();
        let mut floor = Floor::default();
        floor.begin(begin);
        floor.passed(begin, 5);
        assert_eq!(floor.begin(begin + WHOLE_EVERY), 0);
        let begin = begin + WHOLE_EVERY;
        floor.left(begin, begin + SECOND / 100);
        assert_eq!(floor.begin(begin + SECOND / 2), 5);
        assert_eq!(floor.begin(begin + SECOND), 0);
        floor.left(begin + SECOND, begin + SECOND * 3);
        assert_eq!(floor.begin(begin + SECOND * 10), 5);
        assert_eq!(floor.begin(begin + SECOND * 11), 0);
        floor.left(begin + SECOND * 11, begin + SECOND * 60);
        assert_eq!(floor.begin(begin + SECOND * 70), 5);
        assert_eq!(floor.begin(begin + SECOND * 71), 0);
    }
}
