//! A line on standard error every five seconds: how many messages a command has come to.

use std::time::{Duration, Instant};

use super::output::report;

/// Time between two lines.
pub(super) const LINE_EVERY: Duration = Duration::from_secs(5);

/// A count that is reported while it grows.
pub(super) struct Progress {
    what: &'static str,
    expected: Option<u64>,
    count: u64,
    reported: Instant,
}

impl Progress {
    /// `what` is counted, e.g. "messages dropped", up to a number if it is known.
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
