//! A plan on disk: what was looked at and what was decided, so that it is carried out exactly, or not at all.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Change, Drains, Plan, Refusal, count_of, diff::diff, snapshot::Snapshot};
use crate::{objects::Objects, text::one_line, topology::Topology};

/// Version of the file and of `plan -o json`: it changes when a field gets another meaning or goes.
pub const VERSION: u32 = 2;

/// Which broker: a plan for one must not be carried out on another that looks the same.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct BrokerIdentity {
    /// The cluster's name.
    pub cluster: String,
    /// The virtual host.
    pub virtual_host: String,
}

impl BrokerIdentity {
    /// Where a plan for `topology` is carried out, as its first line says it.
    #[must_use]
    pub(crate) fn heading(&self, topology: &Topology) -> String {
        one_line(format!("topology `{}` in {self}", topology.name))
    }
}

impl fmt::Display for BrokerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "virtual host `{}` of cluster `{}`", self.virtual_host, self.cluster)
    }
}

/// A plan of overdue, and the state of the broker it was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[schemars(title = "Plan")]
pub struct SavedPlan {
    /// Version of this format. It changes when a field gets another meaning or goes.
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// The topology's name: the prefix of everything in it.
    pub topology: String,
    /// The broker that was looked at.
    pub broker: BrokerIdentity,
    /// The one-line summary, for people and pipelines.
    pub summary: String,
    /// The plan.
    pub plan: Plan,
    /// What the topology file wanted.
    pub desired: Objects,
    /// The topology's objects as they were on the broker.
    pub observed: Objects,
}

/// Why a saved plan is not carried out.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StalePlan {
    /// Written by another version of the program.
    #[error(
        "the plan has version {0}, this program writes {VERSION}; make it again with `overdue plan --save`"
    )]
    Version(u32),
    /// It is another topology's.
    #[error("the plan is for topology `{plan}`, the topology file is `{file}`")]
    Topology {
        /// The plan's.
        plan: String,
        /// The file's.
        file: String,
    },
    /// It is another broker's.
    #[error("the plan is for {plan}, this is {now}")]
    Elsewhere {
        /// Where it was made.
        plan: BrokerIdentity,
        /// Where it is to be carried out.
        now: BrokerIdentity,
    },
    /// The topology file says something else by now.
    #[error(
        "the topology file has changed since the plan was made; make it again with `overdue plan --save`"
    )]
    Edited,
    /// The broker has other objects by now.
    #[error(
        "the broker has changed since the plan was made ({0}); make it again with `overdue plan --save`"
    )]
    Changed(String),
    /// Somebody else reads what the plan takes out of use.
    #[error(
        "somebody else consumes from queue {queue} by now, and the plan takes it out of use; make it again with \
         `overdue plan --save`"
    )]
    Consumed {
        /// The queue.
        queue: String,
    },
    /// More would be lost than was agreed to.
    #[error(
        "queue {queue} holds {} by now, and the plan gives up {}; make it again with `overdue plan --save`",
        count_of(Some(*now)),
        count_of(Some(*lost))
    )]
    Fuller {
        /// The queue.
        queue: String,
        /// Messages in it.
        now: u64,
        /// Messages that the plan loses.
        lost: u64,
    },
}

/// Why a file is not a saved plan.
#[derive(Debug, thiserror::Error)]
pub enum PlanFileError {
    /// It is one of another version.
    #[error(transparent)]
    Version(StalePlan),
    /// It is something else.
    #[error("it is not a plan that `overdue plan --save` wrote ({0})")]
    NotAPlan(#[from] serde_json::Error),
}

/// What every version of the file has.
#[derive(Deserialize)]
struct Versioned {
    version: u32,
}

impl SavedPlan {
    /// Reads what `overdue plan --save` wrote.
    ///
    /// # Errors
    /// See [`PlanFileError`]; one of another version is not read any further.
    pub fn parse(text: &str) -> Result<Self, PlanFileError> {
        let Versioned { version } = serde_json::from_str(text)?;
        if version != VERSION {
            return Err(PlanFileError::Version(StalePlan::Version(version)));
        }
        Ok(serde_json::from_str(text)?)
    }

    /// `plan` for `topology` and the broker as it was `observed`.
    #[must_use]
    pub fn new(
        topology: &Topology,
        broker: BrokerIdentity,
        plan: Plan,
        observed: &Snapshot,
    ) -> Self {
        Self {
            version: VERSION,
            topology: topology.name.clone(),
            broker,
            summary: plan.summary(),
            plan,
            desired: topology.objects(),
            observed: observed.relevant_to(topology),
        }
    }

    /// Whether it may still be carried out on the broker as it is now. Messages may have come and gone, but not into
    /// a queue that is given up with what it holds.
    ///
    /// # Errors
    /// See [`StalePlan`].
    pub fn check(
        &self,
        topology: &Topology,
        broker: &BrokerIdentity,
        now: &Snapshot,
    ) -> Result<(), StalePlan> {
        if self.version != VERSION {
            return Err(StalePlan::Version(self.version));
        }
        if self.topology != topology.name {
            let (plan, file) = (self.topology.clone(), topology.name.clone());
            return Err(StalePlan::Topology { plan, file });
        }
        if self.broker != *broker {
            let (plan, now) = (self.broker.clone(), broker.clone());
            return Err(StalePlan::Elsewhere { plan, now });
        }
        if self.desired != topology.objects() {
            return Err(StalePlan::Edited);
        }
        if let Some(what) = changed(&self.observed, &now.relevant_to(topology)) {
            return Err(StalePlan::Changed(what));
        }
        self.consumed(now).or_else(|| self.fuller(topology, now)).map_or(Ok(()), Err)
    }
}

impl SavedPlan {
    /// A queue that the plan takes out of use, and that somebody else consumes from.
    fn consumed(&self, now: &Snapshot) -> Option<StalePlan> {
        self.plan.changes().find_map(|change| {
            let queue = match change {
                Change::Unbind(binding) if binding.mark_of().is_none() => &binding.destination,
                Change::DeleteQueue { queue, .. } => queue,
                _ => return None,
            };
            let consumed = now.foreign_consumers.contains_key(queue);
            consumed.then(|| StalePlan::Consumed { queue: queue.clone() })
        })
    }

    /// A queue that the plan gives up, and that holds more than it did.
    fn fuller(&self, topology: &Topology, now: &Snapshot) -> Option<StalePlan> {
        let given_up = |change: &Change| match change {
            Change::DeleteQueue { queue, lost } => Some((queue.clone(), *lost)),
            _ => None,
        };
        let given_up: BTreeMap<String, u64> = self.plan.changes().filter_map(given_up).collect();
        // Retired queues are looked at again before they are deleted; what a removed timeout leaves, nobody consumes.
        let plan = diff(topology, now, &BTreeSet::new());
        let occupied = plan.refusals.into_iter().filter_map(|refusal| match refusal {
            Refusal::Occupied { queue, messages } => Some((queue, messages.unwrap_or_default())),
            Refusal::Exchange { .. } | Refusal::Kept { .. } => None,
        });
        let leaving = plan.draining.into_iter().filter_map(|queue| {
            let leaves = matches!(queue.drains, Drains::Leaving { .. });
            leaves.then_some((queue.queue, queue.messages.unwrap_or_default()))
        });
        let mut fuller = occupied.chain(leaving).filter_map(|(queue, now)| {
            let lost = given_up.get(&queue).copied()?;
            (now > lost).then_some(StalePlan::Fuller { queue, now, lost })
        });
        fuller.next()
    }
}

/// The first thing that is not as it was.
fn changed(then: &Objects, now: &Objects) -> Option<String> {
    let exchanges = then.exchanges.keys().chain(now.exchanges.keys());
    let exchange =
        exchanges.into_iter().find(|name| then.exchanges.get(*name) != now.exchanges.get(*name));
    let queues = then.queues.keys().chain(now.queues.keys());
    let queue = queues.into_iter().find(|name| then.queues.get(*name) != now.queues.get(*name));
    let binding = then.bindings.symmetric_difference(&now.bindings).next();
    exchange
        .map(|name| format!("exchange {name}"))
        .or_else(|| queue.map(|name| format!("queue {name}")))
        .or_else(|| {
            binding.map(|binding| format!("binding {} -> {}", binding.source, binding.destination))
        })
}
/// The schema of `overdue plan -o json` and of saved plans, JSON Schema draft 2020-12.
#[must_use]
pub fn schema() -> Value {
    SchemaGenerator::new(SchemaSettings::draft2020_12().for_serialize())
        .into_root_schema_for::<SavedPlan>()
        .into()
}
