//! The ways in which a broker can delay.

use std::{collections::BTreeMap, time::Duration};

use crate::{
    broker::{Management, ManagementError},
    ladder::{Ladder, objects::Ends, path::Rounding, spec::LadderSpec},
    objects::{Argument, Binding, Exchange, Objects, Queue},
    plan::Change,
    topology::{route::Route, strategy::DELAYED_EXCHANGE_TYPE},
};

use super::error::DelayError;

/// The last word of each routing key.
const WORD: &str = "due";
/// Up to an hour, a second being a millisecond.
pub(super) const LONGEST: Duration = Duration::from_millis(3_600);
/// For a ladder with a budget: about as many queues as an hour's ladder could have for two hops.
const BUDGET: u32 = 60;
/// As many as the ladders of other libraries have.
const BITS: u32 = 28;

/// Which way.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Kind {
    /// Our ladder as it is by default.
    Ladder,
    /// Our ladder with a budget of 60 queues.
    Budget,
    /// A binary ladder of 28 places that is entered at the first bit.
    BinaryFirstBit,
    /// The same, entered at the top, as other libraries do.
    BinaryTop,
    /// The delayed message plugin.
    Plugin,
}

/// A way, with its objects.
pub(crate) struct Way {
    pub(super) kind: Kind,
    /// What its names begin with.
    name: String,
    ladder: Option<Ladder>,
}

impl Way {
    /// Each way that this broker has.
    pub(super) async fn all(management: &Management, name: &str) -> Result<Vec<Self>, DelayError> {
        let mut kinds = vec![Kind::Ladder, Kind::Budget, Kind::BinaryFirstBit, Kind::BinaryTop];
        if management.has_exchange_type(DELAYED_EXCHANGE_TYPE).await? {
            kinds.push(Kind::Plugin);
        }
        kinds.into_iter().map(|kind| Self::new(kind, name)).collect()
    }

    fn new(kind: Kind, name: &str) -> Result<Self, DelayError> {
        let name = format!("{name}.{}", kind.word());
        let resolution = Duration::from_millis(1);
        let bits = Duration::from_millis((1 << BITS) - 1);
        let spec = match kind {
            Kind::Ladder => Some((LONGEST, None)),
            Kind::Budget => Some((LONGEST, Some(BUDGET))),
            Kind::BinaryFirstBit | Kind::BinaryTop => Some((bits, Some(BITS))),
            Kind::Plugin => None,
        };
        let compiled = spec.map(|(max, max_queues)| {
            Ladder::compile(&name, &LadderSpec { max, resolution, max_queues })
        });
        Ok(Self { kind, ladder: compiled.transpose()?, name })
    }

    /// As it is shown.
    pub(super) const fn title(&self) -> &'static str {
        self.kind.title()
    }

    /// Where messages come out.
    pub(super) fn queue(&self) -> String {
        format!("{}.done", self.name)
    }

    /// How many queues it takes.
    pub(super) fn queues(&self) -> u32 {
        self.ladder.as_ref().map_or(0, Ladder::queue_count)
    }

    /// Where a message is published.
    pub(super) fn route(&self, delay: Duration) -> Result<Route, DelayError> {
        let Some(ladder) = &self.ladder else {
            let ms = u32::try_from(delay.as_millis()).unwrap_or(u32::MAX);
            return Ok(Route {
                exchange: format!("{}.delayed", self.name),
                routing_key: WORD.to_owned(),
                x_delay: Some(ms.max(1)),
                holds: delay,
                early: Duration::ZERO,
                queues: Vec::new(),
            });
        };
        let path = ladder.enter(delay, Rounding::Down, WORD)?;
        let holds = path.total();
        let queues = path.hops.into_iter().map(|hop| hop.queue).collect();
        let (mut exchange, mut routing_key) = (path.exchange, path.routing_key);
        if self.kind == Kind::BinaryTop {
            let digits = routing_key.split('.').count() - 1;
            let zeros = ".0".repeat(ladder.places().len() - digits);
            routing_key = routing_key.replacen(&format!(".{WORD}"), &format!("{zeros}.{WORD}"), 1);
            exchange = ladder.places().last().map_or(exchange, |top| ladder.exchange(*top));
        }
        let early = Duration::ZERO;
        Ok(Route { exchange, routing_key, x_delay: None, holds, early, queues })
    }

    /// Makes its objects.
    pub(super) async fn declare(&self, management: &Management) -> Result<(), ManagementError> {
        let Objects { exchanges, queues, bindings } = self.objects();
        for exchange in exchanges.into_values() {
            management.apply(&Change::CreateExchange(exchange)).await?;
        }
        for queue in queues.into_values() {
            management.apply(&Change::CreateQueue(queue)).await?;
        }
        for binding in bindings {
            management.apply(&Change::Bind(binding)).await?;
        }
        Ok(())
    }

    fn objects(&self) -> Objects {
        let (due, park) = (format!("{}.dlx", self.name), format!("{}.park", self.name));
        let ends = Ends { due_exchange: &due, park_exchange: &park, quorum: true };
        let mut objects = self.ladder.as_ref().map(|it| it.objects(&ends)).unwrap_or_default();
        let mut exchange = |name: &str, kind: &str, arguments: Vec<(&str, Argument)>| {
            let arguments = arguments.into_iter().map(|(key, value)| (key.to_owned(), value));
            let exchange = Exchange {
                name: name.to_owned(),
                kind: kind.to_owned(),
                durable: true,
                auto_delete: false,
                arguments: arguments.collect(),
            };
            objects.exchanges.insert(name.to_owned(), exchange);
        };
        exchange(&park, "fanout", Vec::new());
        exchange(&due, "topic", vec![("alternate-exchange", park.as_str().into())]);
        let delayed = format!("{}.delayed", self.name);
        if self.kind == Kind::Plugin {
            exchange(&delayed, DELAYED_EXCHANGE_TYPE, vec![("x-delayed-type", "topic".into())]);
        }
        let done = Queue {
            name: self.queue(),
            kind: "quorum".to_owned(),
            durable: true,
            auto_delete: false,
            exclusive: false,
            arguments: BTreeMap::new(),
        };
        let bind = |source: &str| Binding {
            source: source.to_owned(),
            destination: self.queue(),
            to_queue: true,
            routing_key: format!("#.{WORD}"),
            arguments: BTreeMap::new(),
        };
        objects.bindings.insert(bind(if self.kind == Kind::Plugin { &delayed } else { &due }));
        objects.queues.insert(done.name.clone(), done);
        objects
    }
}

impl Kind {
    pub(super) const fn title(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Budget => "ladder, with a budget",
            Self::BinaryFirstBit => "binary ladder, from the first bit",
            Self::BinaryTop => "binary ladder, from the top",
            Self::Plugin => "delayed message plugin",
        }
    }

    const fn word(self) -> &'static str {
        match self {
            Self::Ladder => "ladder",
            Self::Budget => "budget",
            Self::BinaryFirstBit => "bits",
            Self::BinaryTop => "top",
            Self::Plugin => "plugin",
        }
    }
}
