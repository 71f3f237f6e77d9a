//! The steps of a plan: each has a change and a reason.

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

use schemars::JsonSchema;
use serde::Serialize;

use super::draining::{DrainStatus, count_of};
use crate::{
    objects::{Argument, Binding, Exchange, Queue},
    text::OneLine,
    topology::Topology,
};

/// One change and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Step {
    /// What to do.
    pub change: Change,
    /// Why.
    pub reason: Reason,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Change {
    /// Declare an exchange.
    CreateExchange(Exchange),
    /// Declare a queue.
    CreateQueue(Queue),
    /// Bind a queue or an exchange to an exchange.
    Bind(Binding),
    /// Mark the queue of a removed timeout as leaving from now on; the binding is the mark. The queue stays bound.
    Leave(Binding),
    /// Take a binding away, so that nothing new comes into a queue that is retired.
    Unbind(Binding),
    /// Delete an exchange that delayed messages with another strategy, once nothing can be on its way to it any more.
    DeleteExchange {
        /// The exchange.
        #[serde(rename = "name")]
        exchange: String,
    },
    /// Delete a retired queue, once nothing is in it any more.
    DeleteQueue {
        /// The queue.
        #[serde(rename = "name")]
        queue: String,
        /// Messages that are lost with it: zero, unless the queue was named with `--discard`.
        #[serde(rename = "messages_lost")]
        lost: u64,
    },
}

impl Change {
    /// The queue or exchange of the change; of a binding, its destination.
    pub(crate) fn object(&self) -> &str {
        match self {
            Self::CreateExchange(exchange) => &exchange.name,
            Self::CreateQueue(queue) => &queue.name,
            Self::Bind(it) | Self::Leave(it) | Self::Unbind(it) => &it.destination,
            Self::DeleteExchange { exchange } => exchange,
            Self::DeleteQueue { queue, .. } => queue,
        }
    }

    /// The queue of the change; empty for changes of exchanges, and of bindings between exchanges.
    pub(crate) fn queue(&self) -> &str {
        match self {
            Self::CreateQueue(queue) => &queue.name,
            Self::Bind(it) | Self::Leave(it) | Self::Unbind(it) if it.to_queue => &it.destination,
            Self::DeleteQueue { queue, .. } => queue,
            _ => "",
        }
    }
}

impl Step {
    /// Whether the step only marks objects as the topology's.
    pub fn marks(&self, topology: &Topology) -> bool {
        match &self.change {
            Change::CreateExchange(exchange) => exchange.name == topology.mark_exchange(),
            Change::Bind(binding) => binding.mark_of().is_some(),
            _ => false,
        }
    }

    /// Whether the step only adds a missing object: an exchange, a binding, or a queue that replaces no queue.
    pub fn adds(&self) -> bool {
        match self.change {
            Change::CreateExchange(_) | Change::Bind(_) => true,
            Change::CreateQueue(_) => !matches!(self.reason, Reason::Replaces(_)),
            Change::Leave(_)
            | Change::Unbind(_)
            | Change::DeleteExchange { .. }
            | Change::DeleteQueue { .. } => false,
        }
    }
}

/// Why a step is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "because", rename_all = "snake_case")]
pub enum Reason {
    /// It is not on the broker.
    Missing,
    /// The queue was there without a mark, in exactly the form that we give; from now on it has one.
    Adopted,
    /// The new queue takes the place of one that has other properties and cannot be changed.
    Replaces(Replaced),
    /// Another queue takes the place of this one.
    Succeeded {
        /// The queue that takes its place.
        successor: String,
        /// What is in the queue.
        contents: Contents,
    },
    /// The level of this queue is no longer in the topology; what publishers still send to it is parked.
    LevelRemoved {
        /// The level, e.g. `30m`.
        level: String,
        /// What is in the queue.
        contents: Contents,
    },
    /// The ladder of this queue is no longer in the topology, or has other digits; what is still published to it is
    /// parked.
    LadderRemoved {
        /// What is in the queue.
        contents: Contents,
    },
    /// The exchange delayed messages with another strategy, and nothing is on its way to it any more.
    StrategyChanged,
    /// The timeout of this queue is no longer in the topology; what still comes due for it is parked.
    TimeoutRemoved {
        /// What is in the queue.
        contents: Contents,
    },
    /// The timeout of this queue is no longer in the topology; the queue stays bound for messages on their way to it.
    TimeoutLeaving,
    /// The queue was leaving, and its timeout is in the topology again.
    WantedAgain,
    /// The queue is retired, and empty.
    RetiredAndEmpty,
    /// The queue is deleted with its messages, because it was named with `--discard`.
    Discarded,
    /// The whole topology is removed.
    TopologyRemoved,
}

impl Reason {
    pub(super) fn removes_timeout(&self) -> bool {
        matches!(self, Self::TimeoutRemoved { .. } | Self::TimeoutLeaving)
    }
}

/// A queue that another one takes the place of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Replaced {
    /// The queue that is replaced.
    pub queue: String,
    /// Why: everything in which it differs.
    pub differences: Vec<Difference>,
}

/// What is in a queue that is taken out of use, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[serde(tag = "state", rename_all = "snake_case")]
pub enum Contents {
    /// Nothing.
    Empty,
    /// Messages that are deleted with the queue.
    Discarded {
        /// Messages when the plan was made.
        messages: u64,
    },
    /// Messages that stay in the queue until they come out of it.
    Draining {
        /// Messages when the plan was made; `null` where the broker has not counted them.
        messages: Option<u64>,
        /// How they come out.
        drains: DrainStatus,
    },
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.change)?;
        match &self.reason {
            Reason::Missing | Reason::Adopted | Reason::TopologyRemoved => Ok(()),
            Reason::Replaces(Replaced { differences, .. }) => {
                write!(f, "\n        {}:", self.reason)?;
                differences.iter().try_for_each(|differs| write!(f, "\n          {differs}"))
            }
            reason => write!(f, "\n        {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::Missing => f.write_str("it is missing"),
            Self::Adopted => f.write_str("it is there without a mark, as this program makes it"),
            Self::Replaces(Replaced { queue, .. }) => {
                write!(f, "replaces {queue}, which cannot be changed")
            }
            Self::Succeeded { successor, contents } => {
                write!(f, "{successor} takes its place{contents}")
            }
            Self::LevelRemoved { level, contents } => write!(
                f,
                "level {level} is no longer in the topology; what publishers still send to it is parked{contents}"
            ),
            Self::LadderRemoved { contents } => write!(
                f,
                "its ladder is no longer in the topology, or has other digits; what is still published to it is \
                 parked{contents}"
            ),
            Self::StrategyChanged => f.write_str(
                "it delayed with another strategy, and nothing is on its way to it; who still publishes to it gets 404",
            ),
            Self::TimeoutRemoved { contents } => write!(
                f,
                "its timeout is no longer in the topology; what still comes due for it is parked{contents}"
            ),
            Self::TimeoutLeaving => f.write_str(
                "its timeout is no longer in the topology; a later apply unbinds it, and deletes it once it is empty, or this one \
                 with --wait",
            ),
            Self::WantedAgain => {
                f.write_str("it was leaving, and its timeout is in the topology again")
            }
            Self::RetiredAndEmpty => f.write_str("retired and empty"),
            Self::Discarded => f.write_str("named with --discard"),
            Self::TopologyRemoved => f.write_str("the topology is removed"),
        }
    }
}

/// The end of a sentence about a queue.
impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::Empty => Ok(()),
            Self::Discarded { messages } => {
                let are = if *messages == 1 { "is" } else { "are" };
                write!(f, "; {} in it {are} discarded", count_of(Some(*messages)))
            }
            Self::Draining { messages, drains } => {
                write!(f, "; it has {} {drains}", count_of(*messages))
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::CreateExchange(exchange) => {
                write!(f, "+ exchange  {}  ({}", exchange.name, exchange.kind)?;
                arguments(f, &exchange.arguments)
            }
            Self::CreateQueue(queue) => {
                write!(f, "+ queue     {}  ({}", queue.name, queue.kind)?;
                arguments(f, &queue.arguments)
            }
            Self::Bind(binding) if binding.mark_of().is_some() => {
                let what = if binding.to_queue { "queue   " } else { "exchange" };
                write!(f, "= {what}  {}", binding.destination)?;
                key(f, &binding.routing_key)
            }
            Self::Bind(binding) => {
                write!(f, "+ binding   {} -> {}", binding.source, binding.destination)?;
                key(f, &binding.routing_key)
            }
            Self::Leave(mark) => write!(f, "~ queue     {}  (leaves)", mark.destination),
            Self::Unbind(binding) => {
                write!(f, "- binding   {} -> {}", binding.source, binding.destination)?;
                key(f, &binding.routing_key)
            }
            Self::DeleteExchange { exchange } => write!(f, "- exchange  {exchange}"),
            Self::DeleteQueue { queue, lost: 0 } => write!(f, "- queue     {queue}"),
            Self::DeleteQueue { queue, lost } => {
                write!(f, "- queue     {queue}  WITH {}", count_of(Some(*lost)))
            }
        }
    }
}

fn key(f: &mut impl Write, key: &str) -> fmt::Result {
    if key.is_empty() { Ok(()) } else { write!(f, "  ({key})") }
}

fn arguments(f: &mut impl Write, arguments: &BTreeMap<String, Argument>) -> fmt::Result {
    for (key, value) in arguments {
        write!(f, ", {key}={value}")?;
    }
    write!(f, ")")
}

/// A property or argument that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Difference {
    /// `type`, `durable`, `auto-delete`, `exclusive` or the name of an argument, e.g. `x-message-ttl`.
    pub property: String,
    /// What the topology wants; `null` is "not set".
    pub desired: Option<Argument>,
    /// What the broker has; `null` is "not set".
    pub observed: Option<Argument>,
}

impl Difference {
    /// The difference between two values of `property`, if there is one.
    pub fn between(
        property: &str,
        desired: Option<&Argument>,
        observed: Option<&Argument>,
    ) -> Option<Self> {
        let property = property.to_owned();
        let differs = Self { property, desired: desired.cloned(), observed: observed.cloned() };
        (desired != observed).then_some(differs)
    }

    /// Every argument that differs: with another value, missing, or not desired.
    pub fn of_arguments(
        desired: &BTreeMap<String, Argument>,
        observed: &BTreeMap<String, Argument>,
    ) -> Vec<Self> {
        let unwanted = observed.keys().filter(|key| !desired.contains_key(*key));
        let keys = desired.keys().chain(unwanted);
        keys.filter_map(|key| Self::between(key, desired.get(key), observed.get(key))).collect()
    }

    /// Every difference between two exchanges, except their names.
    pub(super) fn of_exchanges(desired: &Exchange, observed: &Exchange) -> Vec<Self> {
        let properties = |it: &Exchange| {
            [
                ("type", Argument::Text(it.kind.clone())),
                ("durable", Argument::Flag(it.durable)),
                ("auto-delete", Argument::Flag(it.auto_delete)),
                ("internal", Argument::Flag(it.internal)),
            ]
        };
        let properties = Self::of_properties(properties(desired), properties(observed));
        properties.chain(Self::of_arguments(&desired.arguments, &observed.arguments)).collect()
    }

    /// Every difference between two queues, except their names.
    pub(super) fn of_queues(desired: &Queue, observed: &Queue) -> Vec<Self> {
        let properties = |it: &Queue| {
            [
                ("type", Argument::Text(it.kind.clone())),
                ("durable", Argument::Flag(it.durable)),
                ("auto-delete", Argument::Flag(it.auto_delete)),
                ("exclusive", Argument::Flag(it.exclusive)),
            ]
        };
        let properties = Self::of_properties(properties(desired), properties(observed));
        properties.chain(Self::of_arguments(&desired.arguments, &observed.arguments)).collect()
    }

    fn of_properties<const COUNT: usize>(
        desired: [(&'static str, Argument); COUNT],
        observed: [(&str, Argument); COUNT],
    ) -> impl Iterator<Item = Self> {
        let pairs = desired.into_iter().zip(observed.map(|(_, has)| has));
        pairs.filter_map(|((property, wanted), has)| {
            Self::between(property, Some(&wanted), Some(&has))
        })
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        let show = |value: &Option<Argument>| {
            value.as_ref().map_or_else(|| "not set".to_owned(), ToString::to_string)
        };
        write!(
            f,
            "{}: broker has {}, topology wants {}",
            self.property,
            show(&self.observed),
            show(&self.desired)
        )
    }
}
