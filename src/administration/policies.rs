//! Policies: which one applies to a queue now, and the one that makes the broker try dead letters again.

use std::collections::BTreeMap;

use reqwest::Method;
use serde::Deserialize;
use serde_json::{Value, json};

use super::{Management, ManagementError, stats::QueueStats};
use crate::{
    permissions::pattern::escape,
    plan::snapshot::{AppliedPolicy, definition, settings},
};

/// A policy as it is stored. Of those that match a queue the one with the highest priority applies, alone.
#[derive(Clone, Debug, PartialEq, Deserialize)]
pub struct Policy {
    /// Unique among the policies of a virtual host.
    pub name: String,
    /// A regular expression of queue or exchange names.
    pub pattern: String,
    /// Higher wins.
    pub priority: i64,
    /// What it sets.
    #[serde(default, deserialize_with = "definition")]
    pub definition: BTreeMap<String, Value>,
}

#[derive(Debug, Deserialize)]
struct OfExchange {
    name: String,
    policy: Option<String>,
}

/// What applies to a queue, read from the broker's own tables, not from its statistics.
#[derive(Debug, Deserialize)]
struct Applied {
    name: String,
    policy: Option<String>,
    operator_policy: Option<String>,
    /// 4.0 has no policies in this answer.
    effective_policy_definition: Option<Value>,
}

impl Management {
    /// The policies of the virtual host. Needs no more than the `management` tag; changes nothing.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn policies(&self) -> Result<Vec<Policy>, ManagementError> {
        self.get(&["policies", self.virtual_host()], &[]).await
    }

    /// What applies to the exchanges of the virtual host, by their names. Needs no more than the `management` tag;
    /// changes nothing.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn exchange_policies(
        &self,
    ) -> Result<BTreeMap<String, AppliedPolicy>, ManagementError> {
        let policies = self.policies().await?;
        let query = [("columns", "name,policy")];
        let exchanges: Vec<OfExchange> =
            self.get(&["exchanges", self.virtual_host()], &query).await?;
        let applied = exchanges.into_iter().filter_map(|OfExchange { name, policy }| {
            let policy = policies.iter().find(|it| Some(&it.name) == policy.as_ref())?;
            let definition = policy.definition.clone();
            Some((name, AppliedPolicy { policy: policy.name.clone(), definition }))
        });
        Ok(applied.collect())
    }

    /// [`Management::queue_stats`] with the policies that apply at this moment, where the broker says so: the
    /// statistics have those of five seconds ago, and RabbitMQ 4.0 has no others.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn stats_and_policies(
        &self,
    ) -> Result<BTreeMap<String, QueueStats>, ManagementError> {
        // Without statistics the answer is made from the broker's tables.
        let query = [
            ("disable_stats", "true"),
            ("columns", "name,policy,operator_policy,effective_policy_definition"),
        ];
        let applied: Vec<Applied> = self.get(&["queues", self.virtual_host()], &query).await?;
        let mut stats = self.queue_stats().await?;
        for Applied { name, policy, operator_policy, effective_policy_definition } in applied {
            let Some(definition) = effective_policy_definition else { continue };
            let queue = stats.entry(name.clone()).or_default();
            queue.name = name;
            queue.policy = policy;
            queue.operator_policy = operator_policy;
            queue.effective_policy_definition = settings(definition);
        }
        Ok(stats)
    }

    /// Makes the broker try the dead letters of `queue` again, by a policy that sets `definition` and is deleted
    /// at once. Whatever changes about a queue's policy has this effect
    /// (`rabbit_fifo_dlx:update_config/4`, message `lookup_topology`).
    ///
    /// `definition` has to be what applies to the queue already. With one that ends at-least-once the
    /// broker deletes the dead letters it holds.
    ///
    /// Permission needed: the `policymaker` tag.
    ///
    /// # Errors
    /// See [`ManagementError`]. When only the second step fails, the policy is still there.
    pub async fn nudge(
        &self,
        policy: &str,
        queue: &str,
        definition: &BTreeMap<String, Value>,
        priority: i32,
    ) -> Result<(), ManagementError> {
        let path = ["policies", self.virtual_host(), policy];
        let body = json!({
            "pattern": format!("^{}$", escape(queue)),
            "apply-to": "queues",
            "priority": priority,
            "definition": definition,
        });
        let set = self.create(Method::PUT, &path, &body).await;
        // Also after a failure: a request that timed out may have been carried out.
        let cleared = self.delete(&path).await;
        set.map_err(|error| self.explain(&format!("set policy {policy}"), error))?;
        cleared.map_err(|error| self.explain(&format!("clear policy {policy}"), error))
    }
}
