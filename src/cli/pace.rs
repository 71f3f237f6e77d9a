//! How many messages a command has come to, and how many a second it may send.

use std::{
    cell::Cell,
    io::IsTerminal,
    num::NonZeroU32,
    time::{Duration, Instant},
};

use indicatif::{ProgressBar, ProgressStyle};

use super::output::report;
use crate::shutdown::Stop;

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

/// Hands out moments, so many a second and evenly.
pub(super) struct Pace {
    between: Duration,
    next: Cell<Instant>,
}

impl Pace {
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        Self { between: Duration::from_secs(1) / per_second.get(), next: Cell::new(Instant::now()) }
    }

    /// Waits for the next moment; false when a stop is requested first. What was missed is not caught up with.
    pub(super) async fn wait(&self, stop: &Stop) -> bool {
        let at = self.next.get().max(Instant::now());
        self.next.set(at + self.between);
        tokio::select! {
            biased;
            () = stop.requested() => false,
            () = tokio::time::sleep_until(at.into()) => true,
        }
    }
}
