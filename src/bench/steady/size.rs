//! How much is measured.

use std::time::Duration;

/// Fewer seconds at high rates: the tables of so many orders are made in a minute.
const MOST_ORDERS: usize = 200_000;

/// How much is measured.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SteadySize {
    /// Orders that become due per second.
    pub rates: Vec<u32>,
    /// At which of them others than our worker are measured, too.
    pub rivals_at: Vec<u32>,
    /// How long, at each rate.
    pub seconds: u32,
    /// Rounds of each.
    pub rounds: usize,
    /// How long a worker without work is watched; not at all where it is zero.
    pub idle: Duration,
}

impl SteadySize {
    /// Orders at a rate.
    pub(crate) fn orders(&self, rate: u32) -> usize {
        let of = |number: u32| usize::try_from(number).unwrap_or(usize::MAX);
        of(rate).saturating_mul(of(self.seconds)).min(MOST_ORDERS)
    }
}
