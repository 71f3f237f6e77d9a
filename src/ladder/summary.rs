//! What a ladder costs, in numbers.

use std::{fmt, time::Duration};

use super::{Ladder, Place, fewest_hops::as_float};
use crate::text::{counted, length};

/// What a ladder costs.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Summary {
    /// How many queues it has.
    pub queues: u32,
    /// How many exchanges, one per place.
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
    /// Counted, not measured.
    #[must_use]
    pub fn summary(&self) -> Summary {
        Summary {
            queues: self.queue_count(),
            exchanges: self.places.len(),
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
        as_float(hops) / as_float(self.max_steps)
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
