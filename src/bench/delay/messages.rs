//! Delays as people choose them, and at random.

use std::time::Duration;

use rand::{RngExt, rngs::StdRng};

use super::way::LONGEST;

/// What order services use: 5 m, 15 m, 30 m, 1 h, 2 h, 1 d; in seconds.
pub(super) const HABITS_S: [u64; 6] = [300, 900, 1_800, 3_600, 7_200, 86_400];

/// Any up to the longest, to the millisecond.
pub(super) fn uniform(rng: &mut StdRng) -> Duration {
    Duration::from_millis(rng.random_range(1..=u64::try_from(LONGEST.as_millis()).unwrap_or(1)))
}
