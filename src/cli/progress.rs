//! A line on standard error every five seconds: the number of messages that a command has processed.

use std::time::{Duration, Instant};

use super::output::report;

pub(super) const LINE_EVERY: Duration = Duration::from_secs(5);

/// A growing count that is reported.
pub(super) struct Progress {
    what: &'static str,
    expected: Option<u64>,
    count: u64,
    reported: Instant,
}

impl Progress {
    /// `what` names the counted things, e.g. "messages dropped"; `expected` is their total, if known.
    pub(super) fn new(what: &'static str, expected: Option<u64>) -> Self {
        Self { what, expected, count: 0, reported: Instant::now() }
    }

    pub(super) fn add(&mut self, number: u64) {
        self.count += number;
        if self.reported.elapsed() >= LINE_EVERY {
            let of = self.expected.map_or_else(String::new, |expected| format!(" of {expected}"));
            report(format!("{}{of} {}", self.count, self.what));
            self.reported = Instant::now();
        }
    }
}
