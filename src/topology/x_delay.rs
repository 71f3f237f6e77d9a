//! What `[compat.x-delay]` says: an exchange of the delayed message plugin.

use serde::{Deserialize, Serialize};

/// The word of the routing key with which messages wait for the worker, and the end of its queue's name.
pub(crate) const WORD: &str = "compat";

/// An exchange of the plugin that is taken over.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct XDelay {
    /// The name that its publishers use.
    pub exchange: String,
    /// How it routes what is due: the plugin's argument `x-delayed-type`.
    pub routing: RoutingType,
}

/// How an exchange routes.
#[derive(Clone, Copy, Debug, Default, Deserialize, Serialize, PartialEq, Eq)]
#[serde(rename_all = "lowercase")]
pub enum RoutingType {
    /// By the same routing key.
    #[default]
    Direct,
    /// By a pattern of the routing key.
    Topic,
    /// To every queue.
    Fanout,
    /// By headers.
    Headers,
}

impl RoutingType {
    /// The name of the exchange type.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Topic => "topic",
            Self::Fanout => "fanout",
            Self::Headers => "headers",
        }
    }

    /// The type with the old name, and the key that takes everything there. A consumer that still binds itself there
    /// gets early copies of what it is bound for, and of nothing else.
    pub(super) const fn entry(self) -> (&'static str, &'static str) {
        match self {
            Self::Direct | Self::Topic => ("topic", "#"),
            Self::Fanout => ("fanout", ""),
            Self::Headers => ("headers", ""),
        }
    }
}
