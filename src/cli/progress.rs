//! How many messages a command has come to.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::report;

/// How often a line is written if nobody looks at a bar.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Counts on standard error: a bar for a person, a line now and then for a log.
pub(super) struct Progress {
    what: &'static str,
    bar: Option<ProgressBar>,
    count: u64,
    reported: Instant,
}

impl Progress {
    /// `what` is counted, e.g. "messages dropped", up to a number if it is known.
    pub(super) fn new(what: &'static str, expected: Option<u64>) -> Self {
        let template = if expected.is_some() {
            "{elapsed} {wide_bar} {pos}/{len} {msg}, {per_sec}"
        } else {
            "{elapsed} {pos} {msg}, {per_sec}"
        };
        let style = ProgressStyle::with_template(template);
        let bar = style.ok().filter(|_| std::io::stderr().is_terminal()).map(|style| {
            let bar = expected.map_or_else(ProgressBar::no_length, ProgressBar::new);
            bar.with_style(style).with_message(what)
        });
        Self { what, bar, count: 0, reported: Instant::now() }
    }

    pub(super) fn add(&mut self, number: u64) {
        self.count += number;
        if let Some(bar) = &self.bar {
            bar.set_position(self.count);
        } else if self.reported.elapsed() >= LINE_EVERY {
            report(format!("{} {}", self.count, self.what));
            self.reported = Instant::now();
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}
