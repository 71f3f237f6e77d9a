//! How many messages a place may get that has refused some, or does not answer. The caller passes the time in.

use std::time::{Duration, Instant};

/// A place that has confirmed so many, one after the other and then twice as many each time, takes any number.
const ALL: usize = 256;

/// A place that messages are published to.
#[derive(Clone, Debug)]
pub struct Place {
    /// Messages at once that have no answer yet.
    most: usize,
    /// None are published before.
    until: Option<Instant>,
    /// The last one.
    pause: Option<Duration>,
    takes_new: bool,
}

impl Default for Place {
    fn default() -> Self {
        Self { most: usize::MAX, until: None, pause: None, takes_new: true }
    }
}

impl Place {
    /// One that may not take any: one message is tried first.
    pub fn in_doubt() -> Self {
        Self { most: 1, ..Self::default() }
    }

    /// How many more messages may be published there.
    pub fn room(&self, on_their_way: usize, now: Instant) -> usize {
        if self.until.is_some_and(|until| now < until) {
            return 0;
        }
        self.most.saturating_sub(on_their_way)
    }

    /// Whether it takes any number.
    pub const fn is_open(&self) -> bool {
        self.most == usize::MAX
    }

    /// Whether a message that was never tried does no harm there: it is answered, and its channel goes on.
    pub const fn takes_new(&self) -> bool {
        self.takes_new
    }

    /// Messages have had no answer for long: no other one is published before they have, and then one at first.
    pub const fn silent(&mut self) {
        (self.most, self.takes_new) = (1, false);
    }

    /// A message was refused: the next one is tried after a pause, which is twice as long each time, from `first` to `longest`.
    /// Those that were on their way together count as one. `harms`: the channel has ended.
    pub fn refused(&mut self, harms: bool, now: Instant, (first, longest): (Duration, Duration)) {
        self.most = 1;
        self.takes_new &= !harms;
        if self.until.is_none_or(|until| now >= until) {
            let pause = self.pause.map_or(first, |pause| (pause * 2).min(longest));
            (self.pause, self.until) = (Some(pause), Some(now + pause));
        }
    }

    /// A message was confirmed.
    pub const fn confirmed(&mut self) {
        self.most = if self.most >= ALL { usize::MAX } else { self.most * 2 };
        (self.until, self.pause, self.takes_new) = (None, None, true);
    }
}
