//! Pauses that differ a little, so that workers that were started together do not ask together for ever.

use std::time::Duration;

/// The part of a pause that is left to chance.
const PART: f64 = 0.25;

/// A pause of three quarters of `longest` to all of it.
pub(super) fn up_to(longest: Duration) -> Duration {
    longest.mul_f64(1.0 - PART * rand::random::<f64>())
}
