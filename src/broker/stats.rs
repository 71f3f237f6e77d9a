//! What waits in the queues, and what policies make of them: fields that `rabbitmq_http_client` leaves out.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;

use super::{Management, ManagementError};
pub(crate) use crate::plan::stats::QueueStats;

const COLUMNS: &str = "name,type,messages,messages_ready,messages_unacknowledged,messages_delayed,messages_dlx,\
                       message_bytes,consumers,policy,operator_policy,effective_policy_definition";

#[derive(Deserialize)]
struct Named {
    name: String,
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

    /// The numbers of every queue of the virtual host, by name; changes nothing.
    ///
    /// # Errors
    /// See [`ManagementError`].
    pub async fn queue_stats(&self) -> Result<BTreeMap<String, QueueStats>, ManagementError> {
        let queues: Vec<QueueStats> =
            self.get(&["queues", self.virtual_host()], &[("columns", COLUMNS)]).await?;
        Ok(queues.into_iter().map(|queue| (queue.name.clone(), queue)).collect())
    }
}
