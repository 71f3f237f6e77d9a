//! Messages that the broker itself, or another worker, has put into the parking lot: those that nobody here has.

use std::{
    collections::VecDeque,
    time::{Duration, Instant},
};

/// By then a message that was parked here is in the broker's counts, and counts that a restart of the broker has lost are
/// back.
const COUNTED: Duration = Duration::from_mins(1);

/// Keeps the messages of others and those of this worker apart, whichever of the two counts shows a message first.
#[derive(Debug, Default)]
pub struct Lot {
    messages: Option<u64>,
    own: u64,
    /// Parked here and not seen in the broker's counts, or gone from them and perhaps coming back; since when.
    expected: VecDeque<(Instant, u64)>,
    /// Counted by the broker, and by nobody here until now.
    unclaimed: u64,
}

impl Lot {
    /// One that begins at `now`, for which all of this was there before; the broker's counts may not show it yet.
    #[must_use]
    pub fn beginning(now: Instant, messages: Option<u64>, own: u64) -> Self {
        Self { messages, own, expected: VecDeque::from([(now, own)]), unclaimed: 0 }
    }

    /// Takes a reading at `now`: `messages` in the parking lot as the broker says, and those that were parked here since the
    /// start. How many more others have put there; each is counted once, a reading later than the broker shows it.
    pub fn observe(&mut self, now: Instant, messages: Option<u64>, own: u64) -> u64 {
        let parked = own.saturating_sub(self.own);
        self.own = own;
        let claimed = parked.min(self.unclaimed);
        let others = std::mem::take(&mut self.unclaimed) - claimed;
        self.expected.retain(|(since, _)| now.saturating_duration_since(*since) < COUNTED);
        if parked > claimed {
            self.expected.push_back((now, parked - claimed));
        }
        if let Some(messages) = messages {
            let before = self.messages.replace(messages).unwrap_or(messages);
            if before > messages {
                self.expected.push_back((now, before - messages));
            }
            self.unclaimed = self.unexpected(messages.saturating_sub(before));
        }
        others
    }

    /// What is left of `grown` without the messages that are expected.
    fn unexpected(&mut self, mut grown: u64) -> u64 {
        while grown > 0
            && let Some((since, expected)) = self.expected.pop_front()
        {
            let seen = grown.min(expected);
            grown -= seen;
            if expected > seen {
                self.expected.push_front((since, expected - seen));
            }
        }
        grown
    }
}
