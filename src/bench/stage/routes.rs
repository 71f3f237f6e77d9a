//! The ways that notices go.

use std::time::Duration;

use rand::{RngExt, SeedableRng, rngs::StdRng};

use super::{
    delays::{Delays, LONG, LONGEST_MS, SHORT, TIMEOUT},
    error::BenchError,
    running::Running,
};
use crate::topology::route::{Delay, Route};

impl Running {
    /// A way that holds notices longer than any of them waits.
    ///
    /// # Errors
    /// A defect of this program.
    pub(crate) fn long_route(&self) -> Result<Route, BenchError> {
        Ok(self.topology.route(TIMEOUT, &Delay::Exactly(LONG))?)
    }

    /// How long the notice of an order of a steady load waits, by its place, and where.
    ///
    /// # Errors
    /// A defect of this program.
    pub(crate) fn usual_route(&self, place: usize) -> Result<(Duration, Route), BenchError> {
        let delay = match self.delays {
            Delays::Level(_) => SHORT,
            Delays::Random => {
                let seed = u64::try_from(place).unwrap_or_default();
                let ms = StdRng::seed_from_u64(seed).random_range(1..=LONGEST_MS);
                Duration::from_millis(ms)
            }
        };
        Ok((delay, self.topology.route(TIMEOUT, &Delay::Exactly(delay))?))
    }

    /// The longest that a notice of a steady load waits.
    pub(crate) const fn longest_delay(&self) -> Duration {
        self.delays.longest()
    }
}
