//! A way to try how a broker delays.

use super::{level::Level, route::Route};

/// One way to try how the broker delays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Trial {
    /// How long the broker holds the message, e.g. `5s`.
    pub(crate) delay: Level,
    /// Whether that is a level with a queue of its own; else it is the exchange that is tried.
    pub(crate) is_level: bool,
    /// Where to publish it.
    pub(crate) route: Route,
}
