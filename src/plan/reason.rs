//! Why a step is taken, as data.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::{difference::Difference, drains::Drains};

/// Why a step is taken.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
    /// The level of this queue is no longer in the topology; what is still published to it is parked.
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
        /// Messages that wait in levels. For which timeout, the broker does not say: some, all or none are for this one.
        #[serde(default)]
        in_levels: u64,
    },
    /// The timeout of this queue is no longer in the topology; the queue stays until what waits for it has come out.
    TimeoutLeaving {
        /// Messages that wait in levels; `null` where the broker has not counted them. Some, all or none are for it.
        in_levels: Option<u64>,
    },
    /// The queue was leaving, and its timeout is in the topology again.
    WantedAgain,
    /// The queue is retired, and empty.
    RetiredAndEmpty,
    /// The queue is deleted with its messages, because it was named with `--discard`.
    Discarded,
}

impl Reason {
    pub(super) fn removes_timeout(&self) -> bool {
        matches!(self, Self::TimeoutRemoved { .. } | Self::TimeoutLeaving { .. })
    }
}

/// A queue that another one takes the place of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Replaced {
    /// The queue that is replaced.
    pub queue: String,
    /// Why: everything in which it differs.
    pub differences: Vec<Difference>,
}

/// What is in a queue that is taken out of use, and what becomes of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
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
        drains: Drains,
    },
}
