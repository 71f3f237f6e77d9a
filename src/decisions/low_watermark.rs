//! The id above which the worker reads a table of rows to publish: lower rows are deleted, or left for the next full scan. While a
//! session has an old snapshot (a backup), each pass would otherwise read the deleted rows again.
//!
//! A row with a smaller id can still appear: its transaction was open when the worker read a greater id. Therefore the last id of a
//! pass becomes the low watermark after the transactions of that moment have ended, and another pass has found their rows. The next
//! full scan finds other late rows, for example after a reset of the sequence or of a prepared transaction.

use std::time::{Duration, Instant};

/// Deleted rows that a pass reads in less than a millisecond.
const FAR: i64 = 1_000;

/// The low watermark of a table.
#[derive(Debug, Default)]
pub struct LowWatermark {
    row: i64,
    /// The greatest id that was ever read.
    highest: i64,
    /// The next low watermark, and the open transactions that may write a row below it.
    next: Option<(i64, Vec<String>)>,
    looked_at: Option<Instant>,
}

impl LowWatermark {
    /// The low watermark: reading begins above this id.
    pub const fn row(&self) -> i64 {
        self.row
    }

    /// Whether a full scan is due, once per `every`. [`LowWatermark::looked`] must follow the scan.
    pub fn is_due(&mut self, now: Instant, every: Duration) -> bool {
        let due = self.looked_at.is_none_or(|at| now >= at + every);
        if due {
            self.looked_at = Some(now);
        }
        due
    }

    /// Whether the low watermark should rise before the next full scan. Each pass reads all rows above the low watermark, so
    /// [`LowWatermark::looked`] may follow any pass.
    pub const fn is_far_below(&self) -> bool {
        self.highest - self.row > FAR
    }

    /// Makes a full scan due.
    pub const fn look_soon(&mut self) {
        self.looked_at = None;
    }

    /// Records an id that was read.
    pub fn saw(&mut self, row: i64) {
        self.highest = self.highest.max(row);
    }

    /// Records a pass that has read all rows, or all rows above the low watermark, up to the id `last`; `None` without rows.
    /// `writers` are the transactions that are open now and may have written another row.
    pub fn looked(&mut self, last: Option<i64>, mut writers: Vec<String>) {
        if last.is_some_and(|last| last < self.row) {
            // The sequence was set back.
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
