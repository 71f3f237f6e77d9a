//! How much is measured.

/// The tutorial's design takes many times as long as the others: a sample is enough.
pub(crate) const TUTORIAL_AT_MOST: usize = 4_000;
/// Orders in a batch of plain SQL.
pub(crate) const BATCH: usize = 500;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BurstSize {
    /// Orders due at one instant, at least 1.
    pub orders: usize,
    /// Rounds of each contestant, at least 1.
    pub rounds: usize,
}
