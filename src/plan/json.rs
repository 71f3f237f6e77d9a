//! The JSON of `overdue plan`.

use std::fmt;

use schemars::{JsonSchema, SchemaGenerator, generate::SchemaSettings};
use serde::Serialize;
use serde_json::Value;

use super::{Plan, fingerprint::Fingerprint};
use crate::{text::one_line, topology::Topology};

/// Version of `plan -o json`: it changes when a field gets another meaning or goes.
const VERSION: u32 = 4;

/// Which broker a plan was made for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct BrokerIdentity {
    /// The cluster's name.
    pub cluster: String,
    /// The virtual host.
    pub virtual_host: String,
}

impl BrokerIdentity {
    /// The first line of a plan: the place where it is carried out.
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
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
#[schemars(title = "Plan")]
pub struct PlanJson {
    /// Version of this format. It changes when a field gets another meaning or goes.
    #[schemars(extend("const" = VERSION))]
    pub version: u32,
    /// The topology's name: the prefix of everything in it.
    pub topology: String,
    /// The broker that was looked at.
    pub broker: BrokerIdentity,
    /// The one-line summary, for people and pipelines.
    pub summary: String,
    /// For `overdue apply --plan`.
    pub fingerprint: Fingerprint,
    /// The plan.
    pub plan: Plan,
}

impl PlanJson {
    /// Converts a plan to the answer of `overdue plan`.
    pub fn new(topology: &Topology, broker: BrokerIdentity, plan: Plan) -> Self {
        let (topology, summary, fingerprint) =
            (topology.name.clone(), plan.summary(), plan.fingerprint());
        Self { version: VERSION, topology, broker, summary, fingerprint, plan }
    }
}

/// The schema of `overdue plan -o json`, JSON Schema draft 2020-12.
pub fn schema() -> Value {
    SchemaGenerator::new(SchemaSettings::draft2020_12().for_serialize())
        .into_root_schema_for::<PlanJson>()
        .into()
}
