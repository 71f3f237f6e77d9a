//! What waits in the queues, and what policies make of them: fields that `rabbitmq_http_client` leaves out.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Management, ManagementError, large_bodies::CONSUMER_TAG};
use crate::plan::counts::CountReport;
pub(crate) use crate::plan::stats::QueueStats;

const COLUMNS: &str = "name,type,messages,messages_ready,messages_unacknowledged,messages_delayed,messages_dlx,\
                       message_bytes,consumers,policy,operator_policy,effective_policy_definition";

#[derive(Deserialize)]
struct Consumed {
    #[serde(default)]
    consumer_details: Vec<ConsumerDetails>,
}

#[derive(Deserialize)]
struct ConsumerDetails {
    consumer_tag: String,
}

#[derive(Deserialize)]
struct Named {
    name: String,
}

#[derive(Deserialize)]
struct Reported {
    #[serde(rename = "type")]
    kind: Option<String>,
    leader: Option<String>,
    reductions: Option<u64>,
}

impl Management {
    /// The name of every queue of the virtual host, without asking for any statistics; changes nothing.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn queue_names(&self) -> Result<BTreeSet<String>, ManagementError> {
        let query =
            [("disable_stats", "true"), ("enable_queue_totals", "false"), ("columns", "name")];
        let queues: Vec<Named> = self.get(&["queues", self.virtual_host()], &query).await?;
        Ok(queues.into_iter().map(|queue| queue.name).collect())
    }

    /// How many consumers of `queue` are not workers of ours; none where the broker does not say.
    ///
    /// The list of all consumers shows a user without the tag `monitoring` only its own; this shows all.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub(super) async fn foreign_consumers(&self, queue: &str) -> Result<u64, ManagementError> {
        let path = ["queues", self.virtual_host(), queue];
        let response = self.respond(&path, &[("columns", "consumer_details")]).await?;
        // Somebody has deleted it meanwhile, or the path cannot be written: then nothing is done about it either.
        if !response.status().is_success() {
            return Ok(0);
        }
        let Ok(consumed) = response.json::<Consumed>().await else { return Ok(0) };
        let foreign = consumed.consumer_details.iter().filter(|it| it.consumer_tag != CONSUMER_TAG);
        Ok(u64::try_from(foreign.count()).unwrap_or(u64::MAX))
    }

    /// The numbers of every queue of the virtual host, by name; changes nothing.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn queue_stats(&self) -> Result<BTreeMap<String, QueueStats>, ManagementError> {
        let queues: Vec<QueueStats> =
            self.get(&["queues", self.virtual_host()], &[("columns", COLUMNS)]).await?;
        Ok(queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect())
    }

    /// The numbers of one queue, from no cache; changes nothing.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub(crate) async fn stats_of(
        &self,
        queue: &str,
    ) -> Result<Option<QueueStats>, ManagementError> {
        self.find(&["queues", self.virtual_host(), queue], &[("columns", COLUMNS)]).await
    }

    /// Which report its counts come from, of a quorum queue; `None` for another one, and where there is no report yet.
    ///
    /// Asks for this queue alone, because the broker answers for a list of them from a cache.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub(crate) async fn count_report(
        &self,
        queue: &str,
    ) -> Result<Option<CountReport>, ManagementError> {
        let columns = [("columns", "type,leader,reductions")];
        let reported: Option<Reported> =
            self.find(&["queues", self.virtual_host(), queue], &columns).await?;
        let Some(Reported { kind, leader, reductions }) = reported else { return Ok(None) };
        // A classic queue does not report while nothing happens in it.
        if kind.as_deref() != Some("quorum") {
            return Ok(None);
        }
        Ok(leader.zip(reductions).map(|(leader, reductions)| CountReport { leader, reductions }))
    }
}
