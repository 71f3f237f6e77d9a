//! How many messages have, or would have, which fate.

use std::{collections::BTreeMap, fmt};

use serde::Serialize;

use super::fate::{Fate, Stays};
use crate::text::noun;

/// Messages by what becomes of them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Totals {
    /// Straight to the business queue.
    pub overdue: u64,
    /// To a level, for the rest of the time.
    pub waiting: u64,
    /// Taken out, as their orders are final.
    pub settled: u64,
    /// Left where they are.
    pub stays: BTreeMap<Stays, u64>,
    /// Published and not confirmed: left where they are.
    pub unconfirmed: u64,
}

impl Totals {
    /// One more message.
    pub fn add(&mut self, fate: &Fate) {
        match fate {
            Fate::Replay(route) if route.holds.is_zero() && route.x_delay.is_none() => {
                self.overdue += 1;
            }
            Fate::Replay(_) => self.waiting += 1,
            Fate::Settle => self.settled += 1,
            Fate::Stay(why) => *self.stays.entry(*why).or_default() += 1,
        }
    }

    /// Messages that leave the parking lot.
    #[must_use]
    pub fn leaving(&self) -> u64 {
        self.overdue + self.waiting + self.settled
    }

    /// All messages.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.leaving() + self.stays.values().sum::<u64>() + self.unconfirmed
    }
}

impl fmt::Display for Totals {
    /// A line per fate that occurs.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let lines = [
            (self.overdue, "overdue: straight to the worker"),
            (self.waiting, "not due yet: wait in a level for the rest"),
            (self.settled, "final: taken out, nothing is published"),
            (self.unconfirmed, "not confirmed by the broker: stay"),
        ];
        for (count, text) in lines.into_iter().filter(|(count, _)| *count > 0) {
            writeln!(f, "{count:>8}  {text}")?;
        }
        for (why, count) in &self.stays {
            let stay = if *count == 1 { "stays" } else { "stay" };
            writeln!(f, "{count:>8}  {stay}: {why}")?;
        }
        let total = self.total();
        write!(f, "{total:>8}  {}", noun(total, "message"))
    }
}
