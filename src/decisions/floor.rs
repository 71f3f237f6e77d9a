//! The row above which a table is read that is worked off from its beginning: the rows below are gone, or left for the next look at
//! everything, and where something keeps an old snapshot (a backup), each pass would read what is left of them.
//!
//! A row with a smaller number can still come: its transaction was open when a greater one was seen. So the last row of a pass
//! becomes the floor when the transactions of that moment have ended, and another pass has found what they wrote. The rest (somebody
//! sets the sequence back, a prepared transaction) is found by the next look at everything.

use std::time::{Duration, Instant};

/// So many rows that are gone are read in less than a millisecond.
const FAR: i64 = 1_000;

/// Where reading begins.
#[derive(Debug, Default)]
pub struct Floor {
    row: i64,
    /// The last row that was ever seen.
    highest: i64,
    /// The next floor, and those that may still write a row below it.
    next: Option<(i64, Vec<String>)>,
    looked_at: Option<Instant>,
}

impl Floor {
    /// After which row to read.
    pub const fn row(&self) -> i64 {
        self.row
    }

    /// Whether it is time, once per `every`, to look at everything; then [`Floor::looked`] follows.
    pub fn is_due(&mut self, now: Instant, every: Duration) -> bool {
        let due = self.looked_at.is_none_or(|at| now >= at + every);
        if due {
            self.looked_at = Some(now);
        }
        due
    }

    /// Whether it is worth raising before the next look at everything. Rows above the floor are all read by each pass, so that then a pass
    /// which has left none is followed by [`Floor::looked`], too.
    pub const fn is_far_below(&self) -> bool {
        self.highest - self.row > FAR
    }

    /// It is time.
    pub const fn look_soon(&mut self) {
        self.looked_at = None;
    }

    /// This row was seen.
    pub fn saw(&mut self, row: i64) {
        self.highest = self.highest.max(row);
    }

    /// Everything was read, or everything above the floor, up to the row `last` if there was any; `writers` have a transaction open now which may have written
    /// another one.
    pub fn looked(&mut self, last: Option<i64>, mut writers: Vec<String>) {
        if last.is_some_and(|last| last < self.row) {
            // The numbers were set back.
            *self = Self::default();
        }
        let last = last.unwrap_or(self.highest);
        self.next = match self.next.take() {
            Some((row, open)) if open.is_empty() => {
                self.row = row.min(last);
                Some((last, writers))
            }
            Some((row, open)) => {
                writers.retain(|writer| open.contains(writer));
                Some((row, writers))
            }
            None => Some((last, writers)),
        };
    }
}
