//! What waits in the queues, and what policies make of them: fields that `rabbitmq_http_client` leaves out.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use super::{Management, ManagementError};

/// One queue's numbers, as the management API has them: up to five seconds old.
/// `None` where the broker has no numbers yet (it has just started) or collects none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct QueueStats {
    /// The queue.
    pub name: String,
    /// Ready, unacked, and on their way to the dead letter exchange.
    pub messages: Option<u64>,
    /// Waiting for a consumer or for their TTL.
    pub messages_ready: Option<u64>,
    /// With a consumer.
    pub messages_unacknowledged: Option<u64>,
    /// Due, and not yet confirmed by the queues they are dead-lettered to (at-least-once only).
    pub messages_dlx: Option<u64>,
    /// Consumers.
    pub consumers: Option<u64>,
    /// The policy that applies, if any.
    pub policy: Option<String>,
    /// The operator policy that applies, if any.
    pub operator_policy: Option<String>,
    /// What both come to.
    #[serde(default, deserialize_with = "definition")]
    pub effective_policy_definition: BTreeMap<String, Value>,
}

/// An empty definition comes as `[]`, not as `{}`.
fn definition<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    let value = Option::<Value>::deserialize(from)?;
    let Some(Value::Object(map)) = value else { return Ok(BTreeMap::new()) };
    Ok(map.into_iter().collect())
}

const COLUMNS: &str = "name,messages,messages_ready,messages_unacknowledged,messages_dlx,consumers,policy,\
                       operator_policy,effective_policy_definition";

impl Management {
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
