//! How much is measured.

use std::time::Duration;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LocksSize {
    /// Orders that become due per second, at least 1.
    pub rate: usize,
    /// How long a round is.
    pub round: Duration,
    /// Rounds of each kind, at least 1.
    pub rounds: usize,
    /// Orders of a burst, at least 1.
    pub burst: usize,
}
