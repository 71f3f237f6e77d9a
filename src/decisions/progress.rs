//! Since when orders are expected to be closed with an effect, and when the last one was.

use std::time::{Duration, Instant};

/// Of one effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Progress {
    /// None was closed; it began then.
    Expected(Instant),
    /// The last one was closed then.
    Closed(Instant),
}

/// Which orders say that nothing is closed, where they have been overdue for long enough.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Suspect {
    /// A worker that has just begun has had no time for any.
    None,
    /// Those whose deadline came after the last closing, so long ago.
    Since(Duration),
    /// All of them.
    All,
}

impl Progress {
    /// At `now`, where an order may be overdue for `bound`.
    #[must_use]
    pub fn suspect(self, now: Instant, bound: Duration) -> Suspect {
        match self {
            Self::Closed(at) => Suspect::Since(now.saturating_duration_since(at)),
            Self::Expected(since) if now.saturating_duration_since(since) < bound => Suspect::None,
            Self::Expected(_) => Suspect::All,
        }
    }
}
