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

pub(crate) mod path;
pub(crate) mod spec;

use std::{
    fmt::{self, Write as _},
    time::Duration,
};

use crate::{
    objects::{Exchange, Objects, Queue},
    text::{counted, duration, length},
};
use spec::{LadderSpec, SpecError};

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
    pub const fn unit(self) -> Duration {
        Duration::from_millis(self.unit_ms)
    }

    /// The highest digit, at least 1: so many queues the place has.
    pub const fn highest(self) -> u32 {
        self.highest
    }

    /// What `digit` holds, in milliseconds.
    fn hold_ms(self, digit: u32) -> u64 {
        self.unit_ms.saturating_mul(digit.into())
    }
}

/// What a ladder leads to; both are exchanges that somebody else declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends<'a> {
    /// Where messages go after their last hold, with their routing key.
    pub due_exchange: &'a str,
    /// Where messages go whose routing key is not one of this ladder.
    pub park_exchange: &'a str,
    /// Quorum queues that dead-letter at least once; else classic queues.
    pub quorum: bool,
}

/// What a ladder costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many queues it has.
    pub queues: u32,
    /// How many exchanges: one per place, and one for what is put back.
    pub exchanges: usize,
    /// The most queues that a message passes.
    pub worst_hops: usize,
    /// Queues that a message passes, averaged over all delays from the resolution up to the maximum.
    pub average_hops: f64,
    /// The longest delay.
    pub max: Duration,
    /// Rounding up makes a message late by less than this.
    pub resolution: Duration,
}

impl Ladder {
    /// The ladder of `topology`.
    ///
    /// # Errors
    /// `spec` asks for what there is not.
    pub fn compile(topology: &str, spec: &LadderSpec) -> Result<Self, SpecError> {
        let spec::Checked { resolution_ms, max_steps } = spec.check()?;
        let digits = spec::digits(resolution_ms, max_steps, spec.max_queues)?;
        let is_round = digits == spec::round_digits(resolution_ms, max_steps);
        let label = label(resolution_ms, &digits, is_round);
        Ok(Self {
            prefix: format!("{topology}.ladder{label}"),
            resolution_ms,
            max_steps,
            places: places(resolution_ms, &digits),
        })
    }

    /// The longest delay.
    pub const fn max(&self) -> Duration {
        Duration::from_millis(self.max_ms())
    }

    const fn max_ms(&self) -> u64 {
        // Not more than `spec::MAX_MS`.
        self.resolution_ms.saturating_mul(self.max_steps)
    }

    /// Delays are rounded to whole numbers of this.
    pub const fn resolution(&self) -> Duration {
        Duration::from_millis(self.resolution_ms)
    }

    /// The places, smallest unit first: as their words are in a routing key.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// How many queues it has.
    pub fn queue_count(&self) -> u32 {
        self.places.iter().map(|place| place.highest).sum()
    }

    /// `orders.ladder.10m`, the exchange of a place.
    pub fn exchange(&self, place: Place) -> String {
        format!("{}.{}", self.prefix, duration(place.unit_ms))
    }

    /// `orders.ladder.again`, which leads to the first queue of each path.
    pub fn again_exchange(&self) -> String {
        format!("{}.again", self.prefix)
    }

    /// `orders.ladder.delay.30m`, the queue of a digit above 0.
    pub fn queue(&self, place: Place, digit: u32) -> String {
        format!("{}.delay.{}", self.prefix, duration(place.hold_ms(digit)))
    }

    /// Its exchanges, queues and bindings.
    ///
    /// Each place has an exchange. It binds the queue of each digit, and with the digit 0 the exchange of the next
    /// smaller place, so that 0 costs no hop. Each queue dead-letters there too. After the smallest comes the due exchange.
    /// One more exchange binds every queue, by the number of digits that a path has from there, and returns other keys.
    pub fn objects(&self, ends: &Ends<'_>) -> Objects {
        let mut objects = Objects::default();
        let again = self.again_exchange();
        objects.exchanges.insert(again.clone(), Exchange::topic(again.clone(), None));
        let mut next = ends.due_exchange.to_owned();
        for (index, place) in self.places.iter().enumerate() {
            let exchange = self.exchange(*place);
            let declared = Exchange::topic(exchange.clone(), Some(ends.park_exchange));
            objects.exchanges.insert(exchange.clone(), declared);
            objects.bind_exchange(&exchange, &next, &pattern(index, 0, "#"));
            for digit in 1..=place.highest {
                let queue = self.delay_queue(*place, digit, &next, ends.quorum);
                objects.bind_queue(&exchange, &queue.name, &pattern(index, digit, "#"));
                objects.bind_queue(&again, &queue.name, &pattern(index, digit, "*"));
                objects.queues.insert(queue.name.clone(), queue);
            }
            next = exchange;
        }
        objects
    }

    fn delay_queue(&self, place: Place, digit: u32, next: &str, quorum: bool) -> Queue {
        let ttl_ms = i64::try_from(place.hold_ms(digit)).unwrap_or(i64::MAX);
        Queue::delaying(self.queue(place, digit), ttl_ms, next, quorum)
    }

    /// Counted, not measured.
    pub fn summary(&self) -> Summary {
        Summary {
            queues: self.queue_count(),
            exchanges: self.places.len() + 1,
            worst_hops: self.worst_hops(),
            average_hops: self.average_hops(),
            max: self.max(),
            resolution: self.resolution(),
        }
    }

    /// All places, unless the smallest delay that needs them all is above the maximum.
    fn worst_hops(&self) -> usize {
        let ones: u64 = self.places.iter().map(|place| place.unit_ms).sum();
        self.places.len() - usize::from(ones > self.max_ms())
    }

    fn average_hops(&self) -> f64 {
        let hops: u64 = self.places.iter().map(|place| self.delays_through(*place)).sum();
        // As times: their ratio is a float, which a `u64` becomes only by a cast.
        Duration::from_secs(hops).div_duration_f64(Duration::from_secs(self.max_steps))
    }

    /// How many of the delays up to the maximum have a digit above 0 at this place.
    fn delays_through(&self, place: Place) -> u64 {
        let delays = self.max_steps + 1;
        let unit = place.unit_ms / self.resolution_ms;
        let period = unit.saturating_mul(u64::from(place.highest) + 1);
        delays - (delays / period * unit + unit.min(delays % period))
    }
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} and {}; delays up to {} take {:.1} hops on average and at most {}, and are rounded by less than {}",
            counted(self.queues, "queue"),
            counted(self.exchanges, "exchange"),
            length(self.max),
            self.average_hops,
            self.worst_hops,
            length(self.resolution)
        )
    }
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

/// `*.*.3.#`: the third word is 3, whatever the others are; `*.*.3.*`: and it is the last but one.
fn pattern(index: usize, digit: u32, rest: &str) -> String {
    format!("{}{digit}.{rest}", "*.".repeat(index))
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
