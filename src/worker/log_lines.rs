//! One line in the log for many things of a kind; the first one stands for all of them.

use std::time::{Duration, Instant};

use crate::{
    decisions::disposition::ParkReason,
    telemetry::{self, Label},
};

/// Why a message is parked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Why {
    /// For those who count.
    pub(super) class: ParkReason,
    /// For the person who looks into the parking lot.
    pub(super) text: String,
}

/// What was parked since the last line.
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

    /// Whether there was something.
    pub(super) fn report(&mut self, timeout: &str) -> bool {
        let Some((label, reason)) = self.first.take() else { return false };
        telemetry::batch_parked(timeout, self.messages, &label, &reason);
        self.messages = 0;
        true
    }
}

/// The least time between two lines about the same.
pub const LINE_EVERY: Duration = Duration::from_secs(10);

/// What has happened and is not in the log yet: a line at once for the first, and then one in ten seconds for all that follow.
#[derive(Debug)]
pub struct Seldom<T> {
    last: Option<Instant>,
    things: usize,
    first: Option<T>,
}

impl<T> Default for Seldom<T> {
    fn default() -> Self {
        Self { last: None, things: 0, first: None }
    }
}

impl<T> Seldom<T> {
    /// So many more; the first of them all stands for the others.
    pub fn add(&mut self, things: usize, first: T) {
        self.things += things;
        self.first.get_or_insert(first);
    }

    /// How many there were since the last line, and the first, if it is time for a line.
    pub fn due(&mut self, now: Instant) -> Option<(usize, T)> {
        self.due_after(LINE_EVERY, now)
    }

    /// The same with a line in so long a time.
    pub(super) fn due_after(&mut self, every: Duration, now: Instant) -> Option<(usize, T)> {
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < every) {
            return None;
        }
        let first = self.first.take()?;
        self.last = Some(now);
        Some((std::mem::take(&mut self.things), first))
    }
}
