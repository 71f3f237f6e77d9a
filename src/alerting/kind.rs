//! What an alert can be about.

use serde::{Deserialize, Serialize};

/// What an alert can be about, in the order of messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Deserialize, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// A condition of `/readyz` does not hold.
    NotReady,
    /// Orders are closed late, or are overdue and not closed.
    Late,
    /// Messages were put into the parking lot.
    Parked,
    /// The sweep closed orders that no message came for.
    Sweep,
    /// The broker differs from the topology file.
    Drift,
}

impl Kind {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::NotReady, Self::Late, Self::Parked, Self::Sweep, Self::Drift];

    /// As settings and messages have it.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotReady => "not-ready",
            Self::Late => "late",
            Self::Parked => "parked",
            Self::Sweep => "sweep",
            Self::Drift => "drift",
        }
    }

    /// The heading of its runbook in `docs/runbooks.md`, as a link has it.
    #[must_use]
    pub const fn runbook(self) -> &'static str {
        match self {
            Self::NotReady => "overdueworkernotready",
            Self::Late => "overdueclosedlate",
            Self::Parked => "overdueparked",
            Self::Sweep => "overduesweepfinds",
            Self::Drift => "overduedrift",
        }
    }
}
