//! What it takes to bring a broker to the desired topology, as data: printed, saved, then executed as it is.

pub mod counts;
pub mod diff;
pub mod drains;
pub mod generation;
pub mod saved;
pub mod snapshot;
pub mod stats;
mod text;
pub mod waiting;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::drains::Drains;
use crate::objects::{Argument, Binding, Exchange, Queue};

/// The changes, in the order in which they are carried out, what they leave for later, and what forbids them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Plan {
    /// Carried out front to back; stopping after any of them leaves a topology that works.
    pub steps: Vec<Step>,
    /// Retired queues that wait until they are empty; a later plan deletes them.
    pub draining: Vec<Draining>,
    /// While there is one, nothing is carried out.
    pub refusals: Vec<Refusal>,
}

/// One change and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Step {
    /// What to do.
    pub change: Change,
    /// Why; empty where the object is simply missing.
    pub reason: String,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Change {
    /// Declare an exchange.
    CreateExchange(Exchange),
    /// Declare a queue.
    CreateQueue(Queue),
    /// Bind a queue to an exchange.
    Bind(Binding),
    /// Take a binding away, so that nothing new comes into a queue that is retired.
    Unbind(Binding),
    /// Delete a retired queue, once nothing is in it any more.
    DeleteQueue {
        /// Its name.
        queue: String,
        /// Messages that are lost with it: zero, unless the user named the queue with `--discard`.
        lost: u64,
    },
}

/// A retired queue with messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Draining {
    /// Its name.
    pub queue: String,
    /// How many wait; `None` where the broker does not say.
    pub messages: Option<u64>,
    /// How they come out, and when the last is due.
    pub drains: Drains,
}

/// Why a plan is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Refusal {
    /// An exchange exists with other properties; it cannot be changed, and replacing it would lose what is
    /// published meanwhile.
    Exchange {
        /// Its name.
        exchange: String,
        /// Everything that differs.
        differences: Vec<Difference>,
    },
    /// A business queue that the topology no longer has holds messages, and more may come in.
    Occupied {
        /// Its name.
        queue: String,
        /// How many; `None` where the broker does not say.
        messages: Option<u64>,
    },
    /// A queue was named with `--discard` that is no removed timeout's: nothing is given up by mistake.
    Kept {
        /// Its name.
        queue: String,
    },
}

/// A count of messages as a person reads it.
#[must_use]
pub fn count_of(messages: Option<u64>) -> String {
    match messages {
        None => "an unknown number of messages".to_owned(),
        Some(1) => "1 message".to_owned(),
        Some(many) => format!("{many} messages"),
    }
}

/// A property or argument that differs.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Difference {
    /// `type`, `durable`, `x-message-ttl`, …
    pub property: String,
    /// What the topology wants; `None` is "not set".
    pub desired: Option<Argument>,
    /// What the broker has; `None` is "not set".
    pub observed: Option<Argument>,
}

impl Plan {
    /// Whether the broker has the topology already; retired queues may still be draining.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.refusals.is_empty()
    }

    /// Whether it takes a queue out of use: unbinds it, or puts another one in its place.
    #[must_use]
    pub fn retires(&self) -> bool {
        self.steps
            .iter()
            .any(|step| !step.adds() && !matches!(step.change, Change::DeleteQueue { lost: 0, .. }))
    }

    /// Queues that are taken out of use, or were: whose messages matter to the plan.
    #[must_use]
    pub fn leaving(&self) -> BTreeSet<String> {
        let steps = self.steps.iter().filter_map(|step| match &step.change {
            Change::Unbind(binding) => Some(&binding.destination),
            Change::DeleteQueue { queue, .. } => Some(queue),
            _ => None,
        });
        let draining = self.draining.iter().map(|draining| &draining.queue);
        let refused = self.refusals.iter().filter_map(|refusal| match refusal {
            Refusal::Occupied { queue, .. } => Some(queue),
            Refusal::Exchange { .. } | Refusal::Kept { .. } => None,
        });
        steps.chain(draining).chain(refused).cloned().collect()
    }

    /// What it does, without the reasons, which have counts in them.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().map(|step| &step.change)
    }

    /// Messages that carrying it out would lose.
    #[must_use]
    pub fn lost(&self) -> u64 {
        let lost = self.steps.iter().map(|step| match step.change {
            Change::DeleteQueue { lost, .. } => lost,
            _ => 0,
        });
        lost.sum()
    }
}

impl Step {
    /// Whether it only adds what is missing: an exchange, a binding, a queue that replaces none.
    #[must_use]
    pub fn adds(&self) -> bool {
        match self.change {
            Change::CreateExchange(_) | Change::Bind(_) => true,
            Change::CreateQueue(_) => self.reason.is_empty(),
            Change::Unbind(_) | Change::DeleteQueue { .. } => false,
        }
    }
}

impl Difference {
    /// The difference between two values of `property`, if there is one.
    #[must_use]
    pub fn between(
        property: &str,
        desired: Option<&Argument>,
        observed: Option<&Argument>,
    ) -> Option<Self> {
        let differ = || Self {
            property: property.to_owned(),
            desired: desired.cloned(),
            observed: observed.cloned(),
        };
        (desired != observed).then(differ)
    }

    /// Every argument that differs: set to something else, missing, or there without being wanted.
    #[must_use]
    pub fn of_arguments(
        desired: &BTreeMap<String, Argument>,
        observed: &BTreeMap<String, Argument>,
    ) -> Vec<Self> {
        let unwanted = observed.keys().filter(|key| !desired.contains_key(*key));
        let keys = desired.keys().chain(unwanted);
        keys.filter_map(|key| Self::between(key, desired.get(key), observed.get(key))).collect()
    }
}
