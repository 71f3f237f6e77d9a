//! The ways in which a broker can delay messages.

pub(crate) use crate::objects::DELAYED_MESSAGE as DELAYED_EXCHANGE_TYPE;

use crate::ladder::Ladder;

/// How a broker delays messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// A queue per level: its message TTL is over, and the message goes to the dead letter exchange. Every broker has it.
    #[default]
    Levels,
    /// Queues whose message TTLs add up to any delay; levels beside them keep their queues. Every broker has it.
    Ladder(Ladder),
    /// An exchange of the plugin `rabbitmq_delayed_message_exchange`: any delay, in memory of one node. Not on RabbitMQ
    /// 4.3 and later.
    DelayedExchange,
}

/// An exchange that publishers use, and the routing keys that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its name.
    pub exchange: String,
    /// What stands before the timeout in the routing key.
    pub before: BeforeTimeout,
}

/// What stands before the timeout in a routing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeTimeout {
    /// One of these levels.
    Levels(Vec<String>),
    /// A number for each place of a ladder.
    Digits(usize),
    /// Nothing. The broker's topic permissions know topic exchanges only, and this is none.
    Nothing,
}

impl Strategy {
    /// As it is written in `topology.toml`.
    #[must_use]
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Levels => "levels",
            Self::Ladder(_) => "ladder",
            Self::DelayedExchange => "delayed-exchange",
        }
    }

    /// An exchange type that the broker has only with a plugin.
    #[must_use]
    pub(crate) const fn needs_exchange_type(&self) -> Option<&'static str> {
        match self {
            Self::Levels | Self::Ladder(_) => None,
            Self::DelayedExchange => Some(DELAYED_EXCHANGE_TYPE),
        }
    }

    /// The ladder, if it has one.
    #[must_use]
    pub const fn ladder(&self) -> Option<&Ladder> {
        match self {
            Self::Ladder(ladder) => Some(ladder),
            Self::Levels | Self::DelayedExchange => None,
        }
    }
}
