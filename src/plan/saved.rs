//! A plan on disk. It gives consent and no orders: what is done is planned again, and is what the file says, or nothing.

use std::fmt;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Change, Plan};
use crate::{text::one_line, topology::Topology};

/// Version of the file and of `plan -o json`: it changes when a field gets another meaning or goes.
pub const VERSION: u32 = 3;

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
    pub fn heading(&self, topology: &Topology) -> String {
        one_line(format!("topology `{}` in {self}", topology.name))
    }
}

impl fmt::Display for BrokerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "virtual host `{}` of cluster `{}`", self.virtual_host, self.cluster)
    }
}

/// A plan of overdue, and the broker it was made for.
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
    #[error("the plan is for {plan}, this is {now}{}", if_unnamed(plan, now))]
    Elsewhere {
        /// Where it was made.
        plan: BrokerIdentity,
        /// Where it is to be carried out.
        now: BrokerIdentity,
    },
    /// What is to be done now is something else.
    #[error(
        "the plan made now is not the saved one: its step {step} is {}, and in the saved one it is {}. Nothing was \
         changed; look at `overdue plan`, and save it again with `overdue plan --save`",
        now.as_deref().unwrap_or("missing"),
        saved.as_deref().unwrap_or("missing")
    )]
    Differs {
        /// The first step that differs, from 1.
        step: usize,
        /// What the file says.
        saved: Option<String>,
        /// What is to be done.
        now: Option<String>,
    },
    /// A file alone gives no message up.
    #[error(
        "the saved plan deletes queue {0} with its messages. Nothing was changed; agree to it here as well, with \
         --discard {0}"
    )]
    NotDiscarded(String),
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
    pub fn parse(text: &str) -> Result<Self, PlanFileError> {
        let Versioned { version } = serde_json::from_str(text)?;
        if version == VERSION {
            return Ok(serde_json::from_str(text)?);
        }
        Err(PlanFileError::Version(StalePlan::Version(version)))
    }

    /// What `overdue plan --save` writes.
    pub fn new(topology: &Topology, broker: BrokerIdentity, plan: Plan) -> Self {
        let (topology, summary) = (topology.name.clone(), plan.summary());
        Self { version: VERSION, topology, broker, summary, plan }
    }

    /// What to carry out: the plan that was made `now` from the topology file and the broker, if the file says the same.
    /// The file adds nothing to it. Messages come and go, so what is deleted because it is empty may stay for a later
    /// plan: it goes if both say so.
    pub fn check(
        &self,
        topology: &Topology,
        broker: &BrokerIdentity,
        mut now: Plan,
    ) -> Result<Plan, StalePlan> {
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
        if let Some(queue) = self.plan.changes().find_map(|it| not_discarded(it, &now)) {
            return Err(StalePlan::NotDiscarded(queue.to_owned()));
        }
        let allowed = |change: &Change| self.plan.changes().any(|saved| allows(saved, change));
        now.steps.retain(|step| !deletes_empty(&step.change) || allowed(&step.change));
        first_difference(&self.plan, &now).map_or(Ok(now), Err)
    }
}

/// Then two nodes of one cluster may have answered.
fn if_unnamed(plan: &BrokerIdentity, now: &BrokerIdentity) -> &'static str {
    if plan.cluster == now.cluster {
        return "";
    }
    ". A cluster without a name of its own has the one of the node that answers: `rabbitmqctl set_cluster_name NAME` \
     gives it one; then save the plan again"
}

/// The queue that the file gives up, if it is there and nobody else does.
fn not_discarded<'a>(saved: &'a Change, now: &Plan) -> Option<&'a str> {
    let Change::DeleteQueue { queue, lost: 1.. } = saved else { return None };
    let deleted =
        now.changes().any(|it| matches!(it, Change::DeleteQueue { queue: it, .. } if it == queue));
    (!deleted && now.leaving().contains(queue)).then_some(queue)
}

fn first_difference(saved: &Plan, now: &Plan) -> Option<StalePlan> {
    let mut agreed = saved.changes().filter(|it| !(deletes_empty(it) && drains(now, it)));
    let mut new = now.changes();
    for step in 1.. {
        match (agreed.next(), new.next()) {
            (None, None) => break,
            (Some(saved), Some(new)) if allows(saved, new) => {}
            (saved, new) => {
                let words =
                    |it: &Change| it.to_string().split_whitespace().collect::<Vec<_>>().join(" ");
                let [saved, now] = [saved, new].map(|it| it.map(|it| format!("`{}`", words(it))));
                return Some(StalePlan::Differs { step, saved, now });
            }
        }
    }
    None
}

/// Whether the second is what the first says, and loses no more.
fn allows(saved: &Change, now: &Change) -> bool {
    match (saved, now) {
        (
            Change::DeleteQueue { queue: saved, lost: agreed },
            Change::DeleteQueue { queue, lost },
        ) => saved == queue && lost <= agreed,
        _ => saved == now,
    }
}

fn deletes_empty(change: &Change) -> bool {
    matches!(change, Change::DeleteQueue { lost: 0, .. } | Change::DeleteExchange { .. })
}

/// Whether a plan leaves to a later one what `change` deletes.
fn drains(plan: &Plan, change: &Change) -> bool {
    match change {
        Change::DeleteExchange { exchange } => {
            plan.retired_exchanges.iter().any(|it| it.exchange == *exchange)
        }
        change => plan.draining.iter().any(|it| it.queue == change.queue()),
    }
}

/// The schema of `overdue plan -o json` and of saved plans, JSON Schema draft 2020-12.
pub fn schema() -> Value {
    SchemaGenerator::new(SchemaSettings::draft2020_12().for_serialize())
        .into_root_schema_for::<SavedPlan>()
        .into()
}
