//! One line in the log for many things of a kind: at once for the first, and then one in ten seconds for all that follow.

use std::time::{Duration, Instant};

/// The least time between two lines.
pub const EVERY: Duration = Duration::from_secs(10);

/// What has happened and is not in the log yet.
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
        if self.last.is_some_and(|last| now.saturating_duration_since(last) < EVERY) {
            return None;
        }
        let first = self.first.take()?;
        self.last = Some(now);
        Some((std::mem::take(&mut self.things), first))
    }
}
