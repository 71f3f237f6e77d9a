//! The ladder: any delay as digits, each digit a queue.
//!
//! A ladder has places, and a place has a unit, e.g. 10 m, and digits. Each digit above 0 is a queue that holds messages
//! for digit times unit; 0 goes straight to the next place. 37 m is 3 × 10 m and 7 × 1 m: two queues. A message enters
//! at its first digit that is not 0, so 30 m passes one queue.
//!
//! The routing key has a word for each digit, *smallest unit first*, and then the word of the timeout:
//! `0.0.7.3.unpaid`. Each place looks at its own word, counted from the front, so a place that is added above, or
//! retired there, changes nothing for the places below it and for the messages that wait in them. That is also why
//! the names of a ladder whose units are not the round ones carry its digits: two ladders share names only where
//! a message of one is right in the other.

pub(crate) mod objects;
pub(crate) mod path;
pub(crate) mod spec;
pub(crate) mod summary;

mod fewest_hops;
mod round;

use std::{fmt::Write as _, time::Duration};

use crate::text::duration;
use spec::{LadderSpec, SpecError};

/// So many times the fewest hops a round ladder may take, averaged over all delays: what people write takes fewer there.
const ROUND_MAY_COST: f64 = 1.05;

/// A compiled ladder of one topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Ladder {
    /// What the names of its exchanges and queues begin with, e.g. `orders.ladder`.
    prefix: String,
    resolution_ms: u64,
    max_steps: u64,
    /// Smallest unit first, never empty.
    places: Vec<Place>,
}

/// A place of a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    unit_ms: u64,
    highest: u32,
}

impl Place {
    /// How long digit 1 holds a message.
    #[must_use]
    pub const fn unit(self) -> Duration {
        Duration::from_millis(self.unit_ms)
    }

    /// The highest digit, at least 1: so many queues the place has.
    #[must_use]
    pub const fn highest(self) -> u32 {
        self.highest
    }

    /// What `digit` holds, in milliseconds.
    fn hold_ms(self, digit: u32) -> u64 {
        self.unit_ms.saturating_mul(digit.into())
    }
}

impl Ladder {
    /// The ladder of `topology`: the round one, or with a number of queues the one with the fewest hops, averaged over all
    /// delays that the places can express. A round one within a twentieth of that is taken instead: 30 m is one hop there.
    pub fn compile(topology: &str, spec: &LadderSpec) -> Result<Self, SpecError> {
        let spec::Checked { resolution_ms, max_steps } = spec.check(round::resolutions())?;
        let round = round::digits(resolution_ms, max_steps);
        let (digits, is_round) = match spec.max_queues {
            Some(queues) => (fewest(max_steps, queues, resolution_ms)?, false),
            None => (round, true),
        };
        let prefix = format!("{topology}.ladder{}", label(resolution_ms, &digits, is_round));
        let places = places(resolution_ms, &digits);
        Ok(Self { prefix, resolution_ms, max_steps, places })
    }

    /// The longest delay.
    #[must_use]
    pub const fn max(&self) -> Duration {
        Duration::from_millis(self.max_ms())
    }

    const fn max_ms(&self) -> u64 {
        // Not more than `spec::MAX_MS`.
        self.resolution_ms.saturating_mul(self.max_steps)
    }

    /// Delays are rounded to whole numbers of this.
    #[must_use]
    pub const fn resolution(&self) -> Duration {
        Duration::from_millis(self.resolution_ms)
    }

    /// The places, smallest unit first: as their words are in a routing key.
    #[must_use]
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// How many queues it has.
    #[must_use]
    pub fn queue_count(&self) -> u32 {
        self.places.iter().map(|place| place.highest).sum()
    }

    /// `orders.ladder.10m`, the exchange of a place.
    #[must_use]
    pub fn exchange(&self, place: Place) -> String {
        format!("{}.{}", self.prefix, duration(place.unit_ms))
    }

    /// `orders.ladder.delay.30m`, the queue of a digit above 0.
    #[must_use]
    pub fn queue(&self, place: Place, digit: u32) -> String {
        format!("{}.delay.{}", self.prefix, duration(place.hold_ms(digit)))
    }
}

/// One digit per place, smallest unit first. Unless it is round the larger places are below: short delays, which are more
/// common than long ones, then pass fewer places.
fn fewest(max_steps: u64, max_queues: u32, resolution_ms: u64) -> Result<Vec<u32>, SpecError> {
    let too_few = || SpecError::TooFewQueues {
        max_queues,
        least: fewest_hops::least_queues(max_steps),
        max_ms: max_steps.saturating_mul(resolution_ms),
    };
    let fewest = fewest_hops::digits(max_steps, max_queues).ok_or_else(too_few)?;
    let most = fewest_hops::hops(&fewest) * ROUND_MAY_COST;
    let round = round::digits_within(resolution_ms, max_steps, max_queues);
    Ok(round.filter(|digits| fewest_hops::hops(digits) <= most).unwrap_or(fewest))
}

fn places(resolution_ms: u64, digits: &[u32]) -> Vec<Place> {
    let mut unit_ms = resolution_ms;
    let place = |highest: &u32| {
        let place = Place { unit_ms, highest: *highest };
        unit_ms = unit_ms.saturating_mul(u64::from(*highest) + 1);
        place
    };
    digits.iter().map(place).collect()
}

/// What the meaning of a routing key depends on, beside the unit of the exchange: the resolution, and how many digits
/// the places below the last have. Nothing for round units from a second. `.1s-7-6x5` is 7 digits, then 5 times 6.
fn label(resolution_ms: u64, digits: &[u32], is_round: bool) -> String {
    if is_round && resolution_ms == 1_000 {
        return String::new();
    }
    let mut label = format!(".{}", duration(resolution_ms));
    let below = digits.split_last().map_or(digits, |(_, below)| below);
    for run in below.chunk_by(|one, next| one == next).filter(|_| !is_round) {
        let radix = run.first().map_or(0, |highest| highest.saturating_add(1));
        // Writing to a string cannot fail.
        let _written = match run.len() {
            1 => write!(label, "-{radix}"),
            times => write!(label, "-{radix}x{times}"),
        };
    }
    label
}
