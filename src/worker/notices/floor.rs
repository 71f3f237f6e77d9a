//! The row above which a pass begins: the rows below it are gone, and where something keeps an old snapshot (a backup) every
//! pass would read what is left of them.
//!
//! A row with a smaller number can still come: its transaction was open when the greater one was read. So the floor rises only
//! when every transaction of that moment has ended. What escapes that (a number is taken an instant before its transaction has an
//! id; somebody sets the sequence back) is found by a look at everything.

use std::time::{Duration, Instant};

/// Between two looks at everything.
const WHOLE_EVERY: Duration = Duration::from_mins(1);

/// Transaction ids as PostgreSQL counts them: what is below `xmin` has ended, what is at or above `xmax` had not begun.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Snapshot {
    /// <https://www.postgresql.org/docs/current/functions-info.html#FUNCTIONS-INFO-SNAPSHOT>
    pub(super) xmin: i64,
    /// The same.
    pub(super) xmax: i64,
}

/// Where passes begin.
#[derive(Debug, Default)]
pub(super) struct Floor {
    row: i64,
    /// A row that everything up to was published, and the first id of a transaction that had not begun then.
    next: Option<(i64, i64)>,
    whole_at: Option<Instant>,
}

impl Floor {
    /// After which row a pass that begins `now` looks.
    pub(super) fn begin(&mut self, now: Instant) -> i64 {
        if self.whole_at.is_none_or(|at| now >= at) {
            self.whole_at = Some(now + WHOLE_EVERY);
            return 0;
        }
        self.row
    }

    /// A pass that left nothing has ended: its first look saw `first`; its last one saw `last`, and nothing behind `row`.
    pub(super) fn passed(&mut self, first: Snapshot, last: Snapshot, row: i64) {
        if let Some((row, xmax)) = self.next
            && first.xmin >= xmax
        {
            self.row = self.row.max(row);
            self.next = None;
        }
        self.next.get_or_insert((row, last.xmax));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn seen(xmin: i64, xmax: i64) -> Snapshot {
        Snapshot { xmin, xmax }
    }

    #[test]
    fn the_floor_rises_when_every_transaction_of_that_moment_has_ended() {
        let now = Instant::now();
        let mut floor = Floor::default();
        assert_eq!(floor.begin(now), 0);
        // 90 is open, and may have taken a number below 500.
        floor.passed(seen(90, 100), seen(90, 100), 500);
        assert_eq!(floor.begin(now), 0);
        floor.passed(seen(90, 150), seen(90, 150), 700);
        assert_eq!(floor.begin(now), 0, "90 is still open");
        floor.passed(seen(99, 150), seen(120, 150), 800);
        assert_eq!(floor.begin(now), 0, "the first look decides");
        floor.passed(seen(100, 160), seen(101, 170), 900);
        assert_eq!(floor.begin(now), 500);
        floor.passed(seen(169, 180), seen(175, 180), 950);
        assert_eq!(floor.begin(now), 500);
        floor.passed(seen(170, 190), seen(170, 190), 960);
        assert_eq!(floor.begin(now), 900);
    }

    #[test]
    fn everything_is_looked_at_once_a_minute() {
        let now = Instant::now();
        let mut floor = Floor::default();
        floor.begin(now);
        floor.passed(seen(10, 10), seen(10, 10), 5);
        floor.passed(seen(10, 10), seen(10, 10), 6);
        assert_eq!(floor.begin(now + WHOLE_EVERY / 2), 5);
        assert_eq!(floor.begin(now + WHOLE_EVERY), 0);
        assert_eq!(floor.begin(now + WHOLE_EVERY), 5);
    }
}
