//! What becomes of messages that wait in a retired queue. None of them is moved.

use std::fmt;

use serde::{Deserialize, Serialize};

/// How what waits in a retired queue gets out of it. Reads on after a count: `3 messages to come out …`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Drains {
    /// Through its own TTL into the exchange of what is due.
    WhenDue {
        /// The TTL: nothing waits longer than that once the queue is unbound.
        within: String,
    },
    /// The workers consume it beside the queue that took its place.
    Consumed,
    /// Its timeout is gone, so that no worker with this topology consumes it.
    Unconsumed {
        /// The queue.
        queue: String,
    },
    /// It is a parking lot: for a person to look at.
    Parked,
    /// It is a delay queue without a TTL.
    Never,
    /// It is a delay queue that dead-letters to another exchange than ours.
    Elsewhere {
        /// Where to; `None` is nowhere, the broker drops what is due.
        exchange: Option<String>,
    },
    /// Somebody else's exchange is bound to it.
    Fed {
        /// That exchange.
        exchange: String,
    },
}

impl Drains {
    /// Whether the queue empties without somebody's help.
    #[must_use]
    pub fn ends(&self) -> bool {
        match self {
            Self::WhenDue { .. } | Self::Consumed | Self::Elsewhere { .. } => true,
            Self::Unconsumed { .. } | Self::Parked | Self::Never | Self::Fed { .. } => false,
        }
    }

    /// Whether what is in it comes out somewhere else than where the topology says. No plan can change that.
    #[must_use]
    pub fn astray(&self) -> bool {
        matches!(self, Self::Never | Self::Elsewhere { .. })
    }
}

impl fmt::Display for Drains {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::WhenDue { within } => write!(f, "to come out when due, the last within {within}"),
            Self::Consumed => f.write_str("for the workers to consume"),
            Self::Unconsumed { queue } => write!(
                f,
                "that no worker with this topology consumes: let one with the old topology finish, or lose them \
                 with --discard {queue}"
            ),
            Self::Parked => f.write_str("for a person to look at"),
            Self::Never => f.write_str("with no TTL to come out by"),
            Self::Elsewhere { exchange: Some(exchange) } => {
                write!(f, "to be dead-lettered to exchange {exchange}, as before")
            }
            Self::Elsewhere { exchange: None } => f.write_str(
                "to be DROPPED by the broker when due, as before: the queue has no dead letter exchange",
            ),
            Self::Fed { exchange } => {
                write!(f, "and more to come from exchange {exchange}, which is not ours")
            }
        }
    }
}
