//! A plan on disk: what was looked at and what was decided, so that it is carried out exactly, or not at all.

use serde::{Deserialize, Serialize};

use super::{Plan, snapshot::Snapshot};
use crate::topology::{Topology, objects::Objects};

/// Version of the file and of `plan -o json`.
pub const VERSION: u32 = 1;

/// A plan and the state of the broker it was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SavedPlan {
    /// [`VERSION`] of the program that wrote it.
    pub version: u32,
    /// The topology's name: the prefix of everything in it.
    pub topology: String,
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
        "the plan has version {0}, this program writes {VERSION}; make it again with `overdue plan --out`"
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
    /// The topology file says something else by now.
    #[error(
        "the topology file has changed since the plan was made; make it again with `overdue plan --out`"
    )]
    Edited,
    /// The broker has other objects by now.
    #[error(
        "the broker has changed since the plan was made ({0}); make it again with `overdue plan --out`"
    )]
    Changed(String),
}

impl SavedPlan {
    /// `plan` for `topology` and the broker as it was `observed`.
    #[must_use]
    pub fn new(topology: &Topology, plan: Plan, observed: &Snapshot) -> Self {
        Self {
            version: VERSION,
            topology: topology.name.clone(),
            summary: plan.summary(),
            plan,
            desired: topology.objects(),
            observed: observed.relevant_to(topology),
        }
    }

    /// Whether it may still be carried out on the broker as it is now. Messages may have come and gone.
    ///
    /// # Errors
    /// See [`StalePlan`].
    pub fn check(&self, topology: &Topology, now: &Snapshot) -> Result<(), StalePlan> {
        if self.version != VERSION {
            return Err(StalePlan::Version(self.version));
        }
        if self.topology != topology.name {
            let (plan, file) = (self.topology.clone(), topology.name.clone());
            return Err(StalePlan::Topology { plan, file });
        }
        if self.desired != topology.objects() {
            return Err(StalePlan::Edited);
        }
        changed(&self.observed, &now.relevant_to(topology))
            .map_or(Ok(()), |what| Err(StalePlan::Changed(what)))
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
