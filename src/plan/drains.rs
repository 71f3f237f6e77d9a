//! What becomes of messages that wait in a retired queue. None of them is moved.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::topology::level::Ttl;

/// How what waits in a retired queue gets out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum Drains {
    /// Through its own TTL into the exchange of what is due.
    WhenDue {
        /// The TTL in milliseconds: nothing waits longer than that once the queue is unbound.
        #[serde(rename = "within_ms", with = "super::ttl_ms")]
        #[schemars(with = "u64")]
        within: Ttl,
    },
    /// Through its own TTL to the next place of its ladder; it stays bound until the places before it are empty, too.
    AlongTheLadder {
        /// How long it takes at most, in milliseconds: its own TTL, and those before it.
        #[serde(rename = "within_ms", with = "super::ttl_ms")]
        #[schemars(with = "u64")]
        within: Ttl,
    },
    /// The workers consume it beside the queue that took its place.
    Consumed,
    /// Its timeout is gone, so that no worker with this topology consumes it.
    Unconsumed {
        /// The queue, for `--discard`.
        queue: String,
    },
    /// Its timeout is gone, and it stays bound for what still waits for it in the levels; workers with the old topology
    /// consume it.
    Leaving {
        /// Messages that wait in levels; `null` where the broker has not counted them. Some, all or none are for it.
        in_levels: Option<u64>,
    },
    /// It is a parking lot: for a person to look at.
    Parked,
    /// It is a delay queue without a TTL.
    Never,
    /// It is a delay queue that dead-letters to another exchange than ours.
    Elsewhere {
        /// The other exchange; `null` is none, the broker drops what is due.
        exchange: Option<String>,
    },
    /// Somebody else's exchange is bound to it.
    Fed {
        /// The exchange of somebody else.
        exchange: String,
    },
}

impl Drains {
    /// Whether the queue empties without somebody's help.
    #[must_use]
    pub fn ends(&self) -> bool {
        match self {
            Self::WhenDue { .. }
            | Self::AlongTheLadder { .. }
            | Self::Consumed
            | Self::Leaving { .. }
            | Self::Elsewhere { .. } => true,
            Self::Unconsumed { .. } | Self::Parked | Self::Never | Self::Fed { .. } => false,
        }
    }

    /// Whether what is in it comes out somewhere else than where the topology says. No plan can change that.
    #[must_use]
    pub fn misdirected(&self) -> bool {
        matches!(self, Self::Never | Self::Elsewhere { .. })
    }
}
