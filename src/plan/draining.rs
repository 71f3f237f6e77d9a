//! What waits for a later plan: retired queues and exchanges, and how what is in them gets out. No message is moved.

use std::fmt::{self, Write};

use schemars::JsonSchema;
use serde::{Serialize, Serializer};

use crate::{
    diagnostic::list_held,
    text::{OneLine, counted},
    topology::level::Ttl,
};

/// A number of messages as text for people.
pub(crate) fn count_of(messages: Option<u64>) -> String {
    messages.map_or_else(
        || "an unknown number of messages".to_owned(),
        |messages| counted(messages, "message"),
    )
}

/// A retired queue with messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Draining {
    /// The queue.
    pub queue: String,
    /// Messages in it; `null` where the broker has not counted them.
    pub messages: Option<u64>,
    /// How they come out, and when the last is due.
    pub drains: DrainStatus,
}

/// How what waits in a retired queue gets out of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "how", rename_all = "snake_case")]
pub enum DrainStatus {
    /// Through its own TTL into the exchange of what is due.
    WhenDue {
        /// The TTL in milliseconds: nothing waits longer than that once the queue is unbound.
        #[serde(rename = "within_ms", serialize_with = "to_ms")]
        #[schemars(with = "u64")]
        within: Ttl,
    },
    /// Through its own TTL to the next place of its ladder; it stays bound until the places before it are empty, too.
    AlongTheLadder {
        /// How long it takes at most, in milliseconds: its own TTL, and those before it.
        #[serde(rename = "within_ms", serialize_with = "to_ms")]
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
    /// The timeout was removed. The queue stays bound for messages on their way to it; workers with the old topology consume it.
    Leaving {
        /// Remaining time in milliseconds; `null` without the broker's clock, and while a retired queue leads to the queue.
        #[serde(rename = "within_ms", serialize_with = "to_ms_or_null")]
        #[schemars(with = "Option<u64>")]
        within: Option<Ttl>,
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
    /// The queue stays bound to a foreign exchange, or to a used exchange of the delayed message plugin.
    Fed {
        /// Name of the exchange.
        exchange: String,
    },
}

impl DrainStatus {
    /// Whether the queue empties without a person.
    pub fn ends(&self) -> bool {
        match self {
            Self::WhenDue { .. }
            | Self::AlongTheLadder { .. }
            | Self::Consumed
            | Self::Leaving { within: Some(_) }
            | Self::Elsewhere { .. } => true,
            Self::Unconsumed { .. }
            | Self::Leaving { within: None }
            | Self::Parked
            | Self::Never
            | Self::Fed { .. } => false,
        }
    }

    /// Whether messages leave the queue to another place than the topology says; no plan can change that.
    pub fn misdirected(&self) -> bool {
        matches!(self, Self::Never | Self::Elsewhere { .. })
    }
}

/// An exchange that the topology no longer has, and that is still needed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct RetiredExchange {
    /// The exchange.
    pub exchange: String,
    /// What it is needed for.
    pub needed: BlockedBy,
}

/// What an exchange is still needed for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "for", rename_all = "snake_case")]
pub enum BlockedBy {
    /// The delayed message plugin holds messages in it.
    Holds {
        /// On the node that answered; `null` where it does not say.
        messages: Option<u64>,
        /// Where it is.
        virtual_host: String,
    },
    /// A queue dead-letters to it, or a worker publishes there what it consumes from the queue.
    DeadLetters {
        /// The queue.
        queue: String,
    },
    /// It was in front of shards, and one of them is left.
    Shares {
        /// The shard.
        queue: String,
    },
    /// Another exchange is bound to it, one of ours that goes first, or somebody else's.
    Bound {
        /// The other exchange.
        exchange: String,
    },
}

impl BlockedBy {
    /// Whether that ends without somebody's help, where these queues drain: others may stay for ever.
    pub(super) fn ends(&self, draining: &[Draining]) -> bool {
        match self {
            Self::Holds { messages, .. } => messages.is_some(),
            Self::DeadLetters { queue } | Self::Shares { queue } => {
                draining.iter().any(|it| it.queue == *queue && it.drains.ends())
            }
            Self::Bound { .. } => false,
        }
    }
}

impl fmt::Display for Draining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        write!(f, "~ queue     {}  {} {}", self.queue, count_of(self.messages), self.drains)
    }
}

impl fmt::Display for RetiredExchange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        write!(f, "~ exchange  {}  {}", self.exchange, self.needed)
    }
}

impl fmt::Display for BlockedBy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::Holds { messages: Some(messages), .. } => write!(
                f,
                "{} in the delayed message plugin, to come out when due; it stays bound until then",
                counted(*messages, "message")
            ),
            Self::Holds { messages: None, virtual_host } => write!(
                f,
                "an unknown number of messages in the delayed message plugin: each node of a cluster counts its own, and \
                 deleting the exchange would lose them. Once `{}` says 0 on every node, \
                 delete it by hand",
                list_held(virtual_host)
            ),
            Self::DeadLetters { queue } => write!(f, "queue {queue} still leads to it"),
            Self::Shares { queue } => write!(f, "its shard {queue} is not empty yet"),
            Self::Bound { exchange } => write!(f, "exchange {exchange} is bound to it"),
        }
    }
}

/// Text that follows a count: `3 messages to come out …`.
impl fmt::Display for DrainStatus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::WhenDue { within } => {
                write!(f, "to come out when due, the last within {}", about(*within))
            },
            Self::AlongTheLadder { within } => write!(
                f,
                "to go on along its ladder; the last comes to the next place within {within}, and until then what \
                 waits before it finds its way"
            ),
            Self::Consumed => f.write_str("for the workers to consume"),
            Self::Unconsumed { queue } => write!(
                f,
                "that no worker with this topology consumes: let one with the old topology finish, or lose them \
                 with --discard {queue}"
            ),
            Self::Leaving { within } => {
                f.write_str("for workers with the old topology to consume; it stays bound ")?;
                match within.map(about) {
                    Some(within) => write!(f, "for {within}, and what comes later is parked"),
                    None => f.write_str("as long as something can be on its way to it"),
                }
            }
            Self::Parked => f.write_str("for a person to look at"),
            Self::Never => f.write_str("with no TTL to come out by"),
            Self::Elsewhere { exchange: Some(exchange) } => {
                write!(f, "to be dead-lettered to exchange {exchange}, as before")
            }
            Self::Elsewhere { exchange: None } => f.write_str(
                "to be DROPPED by the broker when due, as before: the queue has no dead letter exchange",
            ),
            Self::Fed { exchange } => {
                write!(f, "and more to come from exchange {exchange}, as long as that is bound to it")
            }
        }
    }
}

/// Rounds a time up to seconds from 10 s on, and to minutes from 10 min on.
fn about(within: Ttl) -> Ttl {
    match within.as_millis() {
        ms @ 600_000.. => Ttl::from_millis(ms.next_multiple_of(60_000)).unwrap_or(within),
        ms @ 10_000.. => Ttl::from_millis(ms.next_multiple_of(1_000)).unwrap_or(within),
        _ => within,
    }
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "serde calls it like this")]
fn to_ms<S: Serializer>(ttl: &Ttl, to: S) -> Result<S::Ok, S::Error> {
    ttl.as_millis().serialize(to)
}

#[expect(clippy::ref_option, reason = "serde calls it like this")]
fn to_ms_or_null<S: Serializer>(ttl: &Option<Ttl>, to: S) -> Result<S::Ok, S::Error> {
    ttl.map(Ttl::as_millis).serialize(to)
}
