//! How many messages a destination may get after it has refused some, or does not answer. The caller passes the time.

use std::time::{Duration, Instant};

/// Each confirm doubles the number of messages that may be without an answer; from this number on, there is no limit.
const ALL: usize = 256;

/// The window of a destination that messages are published to.
#[derive(Clone, Debug)]
pub struct DestinationWindow {
    /// Limit of messages without an answer.
    most: usize,
    /// No message is published before this instant.
    until: Option<Instant>,
    pause: Option<Duration>,
    takes_untried: bool,
}

impl Default for DestinationWindow {
    fn default() -> Self {
        Self { most: usize::MAX, until: None, pause: None, takes_untried: true }
    }
}

impl DestinationWindow {
    /// The window of a destination that may refuse messages: one message is tried first.
    pub fn probing() -> Self {
        Self { most: 1, ..Self::default() }
    }

    /// How many more messages may be published at `now`.
    pub fn available(&self, unconfirmed: usize, now: Instant) -> usize {
        if self.until.is_some_and(|until| now < until) {
            return 0;
        }
        self.most.saturating_sub(unconfirmed)
    }

    /// Whether the destination takes any number of messages.
    pub const fn is_open(&self) -> bool {
        self.most == usize::MAX
    }

    /// Whether the first attempt of a message is safe: the broker answers it, and its channel stays open.
    pub const fn takes_untried(&self) -> bool {
        self.takes_untried
    }

    /// Records that messages have no answer for too long: after their answers, one message is tried first.
    pub const fn confirm_timed_out(&mut self) {
        (self.most, self.takes_untried) = (1, false);
    }

    /// Records a refused message, or several at once; the pause doubles from `first` to `longest`. `harms`: the channel has ended.
    pub fn refused(&mut self, harms: bool, now: Instant, (first, longest): (Duration, Duration)) {
        self.most = 1;
        self.takes_untried &= !harms;
        if self.until.is_none_or(|until| now >= until) {
            let pause = self.pause.map_or(first, |pause| (pause * 2).min(longest));
            (self.pause, self.until) = (Some(pause), Some(now + pause));
        }
    }

    /// Records a confirmed message.
    pub const fn confirmed(&mut self) {
        self.most = if self.most >= ALL { usize::MAX } else { self.most * 2 };
        (self.until, self.pause, self.takes_untried) = (None, None, true);
    }
}
