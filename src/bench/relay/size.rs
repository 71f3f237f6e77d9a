//! How much is measured.

/// Unconfirmed messages of the client alone: what our publisher has.
pub(crate) const WINDOW: usize = crate::bench::publish::WINDOW;
/// Events in a transaction of most outbox relays.
pub(crate) const RIVAL_BATCH: i64 = 100;
/// Events in a transaction of the database alone: what our relay claims.
pub(crate) const FLOOR_BATCH: i64 = 2_000;
/// What was to be reached: events per second, at least.
pub(super) const EXPECTED_PER_S: f64 = 10_000.0;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RelaySize {
    /// Events in the outbox, at least 1.
    pub events: usize,
    /// Rounds of each; one more, with fewer events, is not counted.
    pub rounds: usize,
}
