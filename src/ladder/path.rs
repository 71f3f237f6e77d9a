//! Finds the routing key for a delay.

use std::time::Duration;

use super::{Ladder, Place};
use crate::text::length;

/// The longest routing key that AMQP 0-9-1 can carry, in bytes.
const MAX_KEY_BYTES: usize = 255;

/// How a delay is rounded to the resolution of a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rounding {
    /// Early by less than the resolution: for a consumer that keeps the message until its deadline.
    Down,
    /// Late by less than the resolution: for a consumer that must not receive it early.
    Up,
}

/// The route of a message through a ladder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Path {
    /// Exchange to publish to.
    pub exchange: String,
    /// Routing key of the message.
    pub routing_key: String,
    /// Queues in which the message waits, in order.
    pub hops: Vec<Hop>,
}

/// A queue of a [`Path`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hop {
    /// Name of the queue.
    pub queue: String,
    /// TTL of the message in the queue.
    pub hold: Duration,
}

impl Path {
    /// Total TTL of all queues.
    pub fn total(&self) -> Duration {
        self.hops.iter().map(|hop| hop.hold).sum()
    }
}

/// Why a delay has no path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DelayError {
    /// The delay is above the ladder's maximum, before rounding.
    #[error(
        "a delay of {} is longer than the ladder holds messages ({}): shorten it, or raise the maximum",
        length(*delay), length(Duration::from_millis(*max_ms))
    )]
    TooLong {
        /// Requested delay.
        delay: Duration,
        /// Maximum in milliseconds.
        max_ms: u64,
    },
    /// The word is empty, or has dots.
    #[error("`{word}` cannot end a routing key: use one word, without dots")]
    NotOneWord {
        /// Given word.
        word: String,
    },
    /// The routing key would have more than 255 bytes.
    #[error(
        "the routing key would have {bytes} bytes, and AMQP allows {MAX_KEY_BYTES}: use a shorter word than `{word}`"
    )]
    KeyTooLong {
        /// Given word.
        word: String,
        /// Length of the routing key.
        bytes: usize,
    },
}

impl Ladder {
    /// The path for `delay`, rounded to the resolution. The due exchange routes by `word`.
    ///
    /// If there is no delay, the message enters at the last place with digit 0, and is routed to the due exchange. A
    /// publisher needs no other right and no special case.
    pub fn enter(
        &self,
        delay: Duration,
        rounding: Rounding,
        word: &str,
    ) -> Result<Path, DelayError> {
        if word.is_empty() || word.contains('.') {
            return Err(DelayError::NotOneWord { word: word.to_owned() });
        }
        let too_long = || DelayError::TooLong { delay, max_ms: self.max_ms() };
        if delay > self.max() {
            return Err(too_long());
        }
        let steps = rounded(delay, self.resolution(), rounding).ok_or_else(too_long)?;
        let digits = self.digits(steps);
        let entry = digits.iter().rposition(|digit| *digit > 0).unwrap_or(0);
        let digits = digits.get(..=entry).unwrap_or_default();
        let numbers = digits.iter().map(|digit| format!("{digit}."));
        let routing_key = numbers.chain([word.to_owned()]).collect::<String>();
        match routing_key.len() {
            0..=MAX_KEY_BYTES => Ok(self.path(digits, routing_key)),
            bytes => Err(DelayError::KeyTooLong { word: word.to_owned(), bytes }),
        }
    }

    /// The path through all places up to `index`, with digit 1 at the smallest place and 0 at the others.
    pub(crate) fn through(&self, index: usize, word: &str) -> Path {
        let digits: Vec<u32> = std::iter::once(1).chain(std::iter::repeat_n(0, index)).collect();
        self.path(&digits, format!("1.{}{word}", "0.".repeat(index)))
    }

    /// The digits of a number of steps, smallest unit first; the digit of the last place is not limited here.
    fn digits(&self, steps: u64) -> Vec<u32> {
        let mut rest = steps;
        let digit = |place: &Place| {
            let unit = place.unit_ms / self.resolution_ms;
            let digit = rest / unit;
            rest %= unit;
            u32::try_from(digit).unwrap_or(u32::MAX)
        };
        let mut digits: Vec<u32> = self.places.iter().rev().map(digit).collect();
        digits.reverse();
        digits
    }

    /// `digits` ends at the place where the message enters.
    fn path(&self, digits: &[u32], routing_key: String) -> Path {
        let passed = self.places.iter().zip(digits).rev();
        let waits = passed.clone().filter(|(_, digit)| **digit > 0);
        let hop = |(place, digit): (&Place, &u32)| Hop {
            queue: self.queue(*place, *digit),
            hold: Duration::from_millis(place.hold_ms(*digit)),
        };
        let entry = passed.map(|(place, _)| self.exchange(*place)).next();
        Path { exchange: entry.unwrap_or_default(), routing_key, hops: waits.map(hop).collect() }
    }
}

/// Number of steps; `None` if it is above `u64::MAX`.
fn rounded(delay: Duration, step: Duration, rounding: Rounding) -> Option<u64> {
    let (delay, step) = (delay.as_nanos(), step.as_nanos());
    let steps = match rounding {
        Rounding::Down => delay.checked_div(step)?,
        Rounding::Up => delay.div_ceil(step),
    };
    u64::try_from(steps).ok()
}
