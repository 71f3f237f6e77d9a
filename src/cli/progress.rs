//! How far it is, on standard error: a bar for a person, a line now and then for a log.

use std::{
    io::IsTerminal,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::report;

/// How often a line is written where nobody looks at a bar.
const LINE_EVERY: Duration = Duration::from_secs(5);

/// Counts messages up to a number that is known beforehand where there was a preview.
pub(super) struct Progress {
    done: &'static str,
    bar: Option<ProgressBar>,
    count: u64,
    reported: Instant,
}

impl Progress {
    /// `done` is what has become of them, e.g. "replayed".
    pub(super) fn new(done: &'static str, expected: Option<u64>) -> Self {
        let template = if expected.is_some() {
            "{elapsed} {wide_bar} {pos}/{len} {msg}"
        } else {
            "{elapsed} {pos} {msg}"
        };
        let style = ProgressStyle::with_template(template);
        let bar = style.ok().filter(|_| std::io::stderr().is_terminal()).map(|style| {
            let bar = expected.map_or_else(ProgressBar::no_length, ProgressBar::new);
            bar.with_style(style).with_message(done)
        });
        Self { done, bar, count: 0, reported: Instant::now() }
    }

    pub(super) fn add(&mut self, messages: u64) {
        self.count += messages;
        if let Some(bar) = &self.bar {
            bar.set_position(self.count);
        } else if self.reported.elapsed() >= LINE_EVERY {
            report(format!("{} messages {}", self.count, self.done));
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
