//! An exchange that is out of use, and why it is still there.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// An exchange that the topology no longer has, and that is still needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RetiredExchange {
    /// The exchange.
    pub exchange: String,
    /// What it is needed for.
    pub needed: Needed,
}

/// What an exchange is still needed for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum Needed {
    /// The delayed message plugin holds messages in it.
    Holds {
        /// On the node that answered; `null` where it does not say.
        messages: Option<u64>,
    },
    /// A queue dead-letters to it.
    DeadLetters {
        /// The queue.
        queue: String,
    },
    /// Another exchange is bound to it, one of ours that goes first, or somebody else's.
    Bound {
        /// The other exchange.
        exchange: String,
    },
}

impl Needed {
    /// Messages in it, where it holds any.
    pub(super) fn messages(&self) -> Option<u64> {
        match self {
            Self::Holds { messages } => *messages,
            Self::DeadLetters { .. } | Self::Bound { .. } => None,
        }
    }

    /// Whether that ends without somebody's help.
    #[must_use]
    pub fn ends(&self) -> bool {
        match self {
            Self::Holds { messages } => messages.is_some(),
            Self::DeadLetters { .. } => true,
            Self::Bound { .. } => false,
        }
    }
}
