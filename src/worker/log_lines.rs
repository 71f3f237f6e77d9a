//! Log lines for many events of a kind: a line shows the first event and their number.

use std::time::{Duration, Instant};

use crate::{
    decisions::disposition::ParkReason,
    telemetry::{self, Label},
};

/// Why a message is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    /// Label of the metric.
    pub(super) class: ParkReason,
    /// Text for people who read the parking lot.
    pub(super) text: String,
}

/// The messages that were parked since the last line.
#[derive(Debug, Default)]
pub(super) struct ParkedLines {
    messages: usize,
    first: Option<(Label, String)>,
}

impl ParkedLines {
    pub(super) fn add(&mut self, label: Label, why: Why) {
        self.messages += 1;
        self.first.get_or_insert((label, why.text));
    }

    /// Logs the parked messages; false if there were none.
    pub(super) fn report(&mut self, timeout: &str) -> bool {
        let Some((label, reason)) = self.first.take() else { return false };
        telemetry::batch_parked(timeout, self.messages, &label, &reason);
        self.messages = 0;
        true
    }
}

/// The shortest time between two log lines about the same subject.
pub const LINE_EVERY: Duration = Duration::from_secs(10);

/// Events that are not in the log yet: the first event is logged at once, and then one line in ten seconds covers all others.
#[derive(Debug)]
pub struct RateLimitedLog<T> {
    last: Option<Instant>,
    things: usize,
    first: Option<T>,
}

impl<T> Default for RateLimitedLog<T> {
    fn default() -> Self {
        Self { last: None, things: 0, first: None }
    }
}

impl<T> RateLimitedLog<T> {
    /// Adds events; a line shows the first event since the last line.
    pub fn add(&mut self, things: usize, first: T) {
        self.things += things;
        self.first.get_or_insert(first);
    }

    /// The number of events since the last line, and the first one, if a line is due.
    pub fn due(&mut self, now: Instant) -> Option<(usize, T)> {
        self.due_after(LINE_EVERY, now)
    }

    /// Like [`RateLimitedLog::due`], with one line per `every`.
    pub(super) fn due_after(&mut self, every: Duration, now: Instant) -> Option<(usize, T)> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < every) {
            return None;
        }
        let first = self.first.take()?;
        self.last = Some(now);
        Some((std::mem::take(&mut self.things), first))
    }
}
