//! How much is measured.

/// How many messages, and how often.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DelaySize {
    /// Messages of a round.
    pub messages: usize,
    /// Rounds that count; one more does not.
    pub rounds: usize,
}
