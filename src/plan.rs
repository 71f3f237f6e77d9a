//! What it takes to bring a broker to the desired topology, as data: printed, saved, then executed as it is.

pub(crate) mod counts;
pub(crate) mod diff;
pub(crate) mod difference;
pub(crate) mod drains;
pub(crate) mod exchanges;
pub(crate) mod generation;
pub(crate) mod kept;
mod note;
mod other_leads;
pub(crate) mod ownership;
pub(crate) mod reason;
mod retired_exchange;
mod retirement;
pub(crate) mod saved;
pub(crate) mod schema;
pub(crate) mod snapshot;
mod stage;
pub(crate) mod stats;
mod text;
mod ttl_ms;
mod upstream;
pub(crate) mod waiting;

use std::collections::BTreeSet;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

pub use self::{
    difference::Difference,
    drains::Drains,
    note::Note,
    reason::{Contents, Reason, Replaced},
    retired_exchange::{Needed, RetiredExchange},
};
use crate::{
    objects::{Binding, Exchange, Queue},
    text::counted,
    topology::Topology,
};

/// The changes, in the order in which they are carried out, what they leave for later, and what forbids them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// Carried out front to back; stopping after any of them leaves a topology that works.
    pub steps: Vec<Step>,
    /// Retired queues that wait until they are empty; a later plan deletes them.
    pub draining: Vec<Draining>,
    /// Exchanges of another strategy that wait until nothing comes to them; a later plan deletes them.
    #[serde(default)]
    pub retired_exchanges: Vec<RetiredExchange>,
    /// While there is one, nothing is carried out.
    pub refusals: Vec<Refusal>,
    /// What it leaves alone, and a person should know of.
    #[serde(default)]
    pub notes: Vec<Note>,
}

/// One change and why.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Step {
    /// What to do.
    pub change: Change,
    /// Why.
    pub reason: Reason,
}

/// What a step does.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "action", rename_all = "snake_case")]
pub enum Change {
    /// Declare an exchange.
    CreateExchange(Exchange),
    /// Declare a queue.
    CreateQueue(Queue),
    /// Bind a queue or an exchange to an exchange.
    Bind(Binding),
    /// Mark the queue of a removed timeout, named by its mark, as leaving from now on; it stays bound until nothing can
    /// be on its way to it any more.
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

/// A retired queue with messages.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Draining {
    /// The queue.
    pub queue: String,
    /// Messages in it; `null` where the broker has not counted them.
    pub messages: Option<u64>,
    /// How they come out, and when the last is due.
    pub drains: Drains,
}

/// Why a plan is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "because")]
pub enum Refusal {
    /// An exchange exists with other properties; it cannot be changed, and replacing it would lose what is
    /// published meanwhile.
    #[serde(rename = "exchange_differs")]
    Exchange {
        /// The exchange.
        exchange: String,
        /// Everything that differs.
        differences: Vec<Difference>,
    },
    /// A business queue that the topology no longer has holds messages, and more may come in.
    #[serde(rename = "queue_holds_messages")]
    Occupied {
        /// The queue.
        queue: String,
        /// Messages in it; `null` where the broker has not counted them.
        messages: Option<u64>,
    },
    /// A queue was named with `--discard` that is not the queue of a removed timeout.
    #[serde(rename = "queue_may_not_be_discarded")]
    Kept {
        /// The queue.
        queue: String,
    },
}

/// A count of messages as a person reads it.
#[must_use]
pub(crate) fn count_of(messages: Option<u64>) -> String {
    messages.map_or_else(
        || "an unknown number of messages".to_owned(),
        |messages| counted(messages, "message"),
    )
}

impl Plan {
    fn step(&mut self, change: Change, reason: Reason) {
        self.steps.push(Step { change, reason });
    }

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
            Change::Unbind(binding) | Change::Leave(binding) => Some(&binding.destination),
            Change::DeleteQueue { queue, .. } => Some(queue),
            _ => None,
        });
        let draining = self.draining.iter().map(|draining| &draining.queue);
        let consumed = self.notes.iter().filter_map(|note| match note {
            Note::Consumed { queue, .. } => Some(queue),
            Note::Unmarked { .. } | Note::Unused { .. } => None,
        });
        let refused = self.refusals.iter().filter_map(|refusal| match refusal {
            Refusal::Occupied { queue, .. } => Some(queue),
            Refusal::Exchange { .. } | Refusal::Kept { .. } => None,
        });
        steps.chain(draining).chain(refused).chain(consumed).cloned().collect()
    }

    /// Whether it depends on what waits in the levels: a timeout is removed, and some of it may be for that one.
    #[must_use]
    pub(crate) fn removes_timeouts(&self) -> bool {
        let reasons = self.steps.iter().map(|step| &step.reason);
        let leaves = |it: &Draining| matches!(it.drains, Drains::Leaving { .. });
        let occupied = |it: &Refusal| matches!(it, Refusal::Occupied { .. });
        reasons.into_iter().any(Reason::removes_timeout)
            || self.draining.iter().any(leaves)
            || self.refusals.iter().any(occupied)
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
    /// Whether it only says whose the topology's queues are.
    #[must_use]
    pub(crate) fn marks(&self, topology: &Topology) -> bool {
        match &self.change {
            Change::CreateExchange(exchange) => exchange.name == topology.mark_exchange(),
            Change::Bind(binding) => binding.mark_of().is_some(),
            _ => false,
        }
    }

    /// Whether it only adds what is missing: an exchange, a binding, a queue that replaces none.
    #[must_use]
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
