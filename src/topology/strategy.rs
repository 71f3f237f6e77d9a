//! The strategies with which a broker can delay messages.

use std::ops::Range;

use super::{
    file::{LadderSection, StrategyName, TopologyFile},
    level::{LevelError, Ttl},
};
pub(crate) use crate::objects::DELAYED_MESSAGE as DELAYED_EXCHANGE_TYPE;

use crate::ladder::{Ladder, spec::LadderSpec};

/// How a broker delays messages.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Strategy {
    /// A queue per level: its message TTL expires, and the broker dead-letters the message. Every broker supports this.
    #[default]
    Levels,
    /// Queues whose message TTLs add up to any delay; levels next to them keep their queues. Every broker supports this.
    Ladder(Ladder),
    /// An exchange of the plugin `rabbitmq_delayed_message_exchange`: any delay, in memory of one node. Not on RabbitMQ 4.3
    /// and later.
    DelayedExchange,
}

/// An exchange that publishers use, and the routing keys that it takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// The name of the exchange.
    pub exchange: String,
    /// The words before the timeout in the routing key.
    pub before: BeforeTimeout,
}

/// The words before the timeout in a routing key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BeforeTimeout {
    /// The name of a level.
    Levels(Vec<String>),
    /// A number for each place of a ladder.
    Digits(usize),
    /// No words. The plugin's exchange is not a topic exchange, so topic permissions do not apply to it.
    Nothing,
}

impl Strategy {
    /// The name in `topology.toml`.
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Levels => "levels",
            Self::Ladder(_) => "ladder",
            Self::DelayedExchange => "delayed-exchange",
        }
    }

    /// The exchange type that needs a plugin.
    pub(crate) const fn needs_exchange_type(&self) -> Option<&'static str> {
        match self {
            Self::Levels | Self::Ladder(_) => None,
            Self::DelayedExchange => Some(DELAYED_EXCHANGE_TYPE),
        }
    }

    /// The ladder of this strategy.
    pub const fn ladder(&self) -> Option<&Ladder> {
        match self {
            Self::Ladder(ladder) => Some(ladder),
            Self::Levels | Self::DelayedExchange => None,
        }
    }
}

/// The strategy of a file; compiles its ladder. The error has the position and the message.
pub(super) fn strategy(file: &TopologyFile) -> Result<Strategy, (Range<usize>, String)> {
    match file.delay().strategy {
        StrategyName::Levels => Ok(Strategy::Levels),
        StrategyName::DelayedExchange => Ok(Strategy::DelayedExchange),
        StrategyName::Ladder => {
            let message = "the strategy `ladder` has no [delay.ladder]".to_owned();
            let missing = || (file.delay.span(), message);
            let section = file.delay().ladder.as_ref().ok_or_else(missing)?;
            compile(file.name.get_ref(), section.get_ref()).map(Strategy::Ladder)
        }
    }
}

fn compile(topology: &str, section: &LadderSection) -> Result<Ladder, (Range<usize>, String)> {
    let at_max = |error: LevelError| (section.max.span(), error.to_string());
    let max = section.max.get_ref().parse::<Ttl>().map_err(at_max)?.as_duration();
    let mut spec = LadderSpec::up_to(max);
    spec.max_queues = section.queues.as_ref().map(|queues| *queues.get_ref());
    Ladder::compile(topology, &spec).map_err(|error| {
        let queues = section.queues.as_ref().filter(|_| max.subsec_nanos() == 0);
        let span = queues.map_or_else(|| section.max.span(), toml::Spanned::span);
        (span, error.to_string())
    })
}
