//! The ladder: any delay as digits, each digit a queue.
//!
//! A ladder has places, and a place has a unit, e.g. 10 m, and digits. Each digit above 0 is a queue whose TTL is digit
//! times unit. A message with digit 0 is routed directly to the next place. 37 m is 3 × 10 m and 7 × 1 m: two queues. A
//! message enters at its first digit that is not 0, so 30 m passes one queue.
//!
//! The routing key has a word for each digit, *smallest unit first*, and then the word of the timeout: `0.0.7.3.unpaid`.
//! Each place matches its own word, counted from the front. A place above can therefore be added or retired without a change
//! for lower places and their waiting messages. For the same reason, names of a ladder without round units contain its
//! digits: two ladders share names only where a message of one is correct in the other.

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
    /// Prefix of the names of exchanges and queues, e.g. `orders.ladder`.
    prefix: String,
    resolution_ms: u64,
    max_steps: u64,
    /// Places, smallest unit first, never empty.
    places: Vec<Place>,
}

/// A place of a ladder.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    unit_ms: u64,
    highest: u32,
}

impl Place {
    /// TTL of digit 1.
    pub const fn unit(self) -> Duration {
        Duration::from_millis(self.unit_ms)
    }

    /// The highest digit, at least 1; also the number of queues of the place.
    pub const fn highest(self) -> u32 {
        self.highest
    }

    /// TTL of `digit`, in milliseconds.
    fn hold_ms(self, digit: u32) -> u64 {
        self.unit_ms.saturating_mul(digit.into())
    }
}

/// The exchanges after a ladder, which other code declares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends<'a> {
    /// Exchange for messages after their last delay, with their routing key.
    pub due_exchange: &'a str,
    /// Exchange for messages whose routing key does not belong to this ladder.
    pub park_exchange: &'a str,
    /// Quorum queues with at-least-once dead-lettering; otherwise classic queues.
    pub quorum: bool,
}

/// Costs of a ladder.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// Number of queues.
    pub queues: u32,
    /// Number of exchanges: one per place, and one for republished messages.
    pub exchanges: usize,
    /// Most queues that a message passes.
    pub worst_hops: usize,
    /// Average number of queues that a message passes, over all delays from the resolution up to the maximum.
    pub average_hops: f64,
    /// The longest delay.
    pub max: Duration,
    /// Rounding up makes a message late by less than this.
    pub resolution: Duration,
}

impl Ladder {
    /// Compiles the ladder of `topology`.
    ///
    /// # Errors
    /// `spec` has an impossible resolution, maximum or number of queues.
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
        // At most `spec::MAX_MS`.
        self.resolution_ms.saturating_mul(self.max_steps)
    }

    /// Delays are rounded to multiples of this.
    pub const fn resolution(&self) -> Duration {
        Duration::from_millis(self.resolution_ms)
    }

    /// The places, smallest unit first, as the words of a routing key.
    pub fn places(&self) -> &[Place] {
        &self.places
    }

    /// Number of queues.
    pub fn queue_count(&self) -> u32 {
        self.places.iter().map(|place| place.highest).sum()
    }

    /// `orders.ladder.10m`, the exchange of a place.
    pub fn exchange(&self, place: Place) -> String {
        format!("{}.{}", self.prefix, duration(place.unit_ms))
    }

    /// `orders.ladder.again`, which routes to the first queue of each path.
    pub fn again_exchange(&self) -> String {
        format!("{}.again", self.prefix)
    }

    /// `orders.ladder.delay.30m`, the queue of a digit above 0.
    pub fn queue(&self, place: Place, digit: u32) -> String {
        format!("{}.delay.{}", self.prefix, duration(place.hold_ms(digit)))
    }

    /// Exchanges, queues and bindings of the ladder.
    ///
    /// Each place has an exchange. It binds the queue of each digit, and with digit 0 the exchange of the next smaller
    /// place, so that 0 costs no hop. Each queue dead-letters to that exchange, too. After the smallest place comes the due
    /// exchange.
    /// Another exchange binds every queue by the number of remaining digits, and returns messages with other keys.
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

    /// Computed, not measured.
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

    /// All places, unless the smallest delay with a digit at every place is above the maximum.
    fn worst_hops(&self) -> usize {
        let ones: u64 = self.places.iter().map(|place| place.unit_ms).sum();
        self.places.len() - usize::from(ones > self.max_ms())
    }

    fn average_hops(&self) -> f64 {
        let hops: u64 = self.places.iter().map(|place| self.delays_through(*place)).sum();
        // The ratio of two durations is a float; a `u64` becomes a float only by a cast.
        Duration::from_secs(hops).div_duration_f64(Duration::from_secs(self.max_steps))
    }

    /// Counts the delays up to the maximum with a digit above 0 at this place.
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

/// `*.*.3.#`: the third word is 3, other words are arbitrary; `*.*.3.*`: the third word is also the last but one.
fn pattern(index: usize, digit: u32, rest: &str) -> String {
    format!("{}{digit}.{rest}", "*.".repeat(index))
}

/// The part of the prefix that, with the unit of an exchange, gives routing keys their meaning: the resolution, and the
/// number of digits of each place below the last. Empty for round units from a second. `.1s-7-6x5` is 7 digits, then 5 times
/// 6.
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
