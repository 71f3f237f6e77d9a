//! The ways in which a broker can delay messages.

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
    pub const fn as_str(&self) -> &'static str {
        match self {
            Self::Levels => "levels",
            Self::Ladder(_) => "ladder",
            Self::DelayedExchange => "delayed-exchange",
        }
    }

    /// An exchange type that the broker has only with a plugin.
    pub(crate) const fn needs_exchange_type(&self) -> Option<&'static str> {
        match self {
            Self::Levels | Self::Ladder(_) => None,
            Self::DelayedExchange => Some(DELAYED_EXCHANGE_TYPE),
        }
    }

    /// The ladder, if it has one.
    pub const fn ladder(&self) -> Option<&Ladder> {
        match self {
            Self::Ladder(ladder) => Some(ladder),
            Self::Levels | Self::DelayedExchange => None,
        }
    }
}

/// The strategy of a file; a ladder is compiled.
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
