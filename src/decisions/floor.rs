//! The row above which a table is read that is worked off from its beginning: the rows below are gone, and where something keeps an
//! old snapshot (a backup), each look would read what is left of them.
//!
//! A row with a smaller number can still come: its transaction was open when a greater one was seen. So a row becomes the floor when
//! nothing up to it is left, and the transactions of that moment have ended. The rest (somebody sets the sequence back, a prepared
//! transaction) is found by the next look at everything.

use std::time::{Duration, Instant};

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
    #[must_use]
    pub const fn row(&self) -> i64 {
        self.row
    }

    /// Rows up to this one were seen.
    pub fn saw(&mut self, row: i64) {
        self.highest = self.highest.max(row);
    }

    /// Whether it is time, once per `every`, to look at everything; then [`Floor::looked`] follows.
    pub fn is_due(&mut self, now: Instant, every: Duration) -> bool {
        let due = self.looked_at.is_none_or(|at| now >= at + every);
        if due {
            self.looked_at = Some(now);
        }
        due
    }

    /// `first` is the first row of all that are left, and `writers` those that had a transaction open just after it was read which
    /// may have written another one; empty where a row may also be found at the next look.
    pub fn looked(&mut self, first: Option<i64>, mut writers: Vec<String>) {
        if first.is_some_and(|first| first <= self.row) {
            // The numbers were set back.
            *self = Self { looked_at: self.looked_at, ..Self::default() };
        }
        let gone = first.map_or(self.highest, |first| first - 1);
        self.next = match self.next.take() {
            Some((row, open)) if open.is_empty() => {
                self.row = row.min(gone);
                Some((gone, writers))
            }
            Some((row, open)) => {
                writers.retain(|writer| open.contains(writer));
                Some((row, writers))
            }
            None => Some((gone, writers)),
        };
    }
}
