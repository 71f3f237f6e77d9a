//! The numbers of a queue and the policy that applies to it, as data: what a [`Snapshot`] has no place for.
//!
//! [`Snapshot`]: super::snapshot::Snapshot

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

/// One queue's numbers, as the management API has them: up to ten seconds old.
/// `None` where the broker has no numbers yet (it has just started) or collects none.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct QueueStats {
    /// The queue.
    pub name: String,
    /// `quorum`, `classic`, …
    #[serde(rename = "type")]
    pub kind: Option<String>,
    /// Ready, unacked, and on their way to the dead letter exchange.
    pub messages: Option<u64>,
    /// Waiting for a consumer or for their TTL.
    pub messages_ready: Option<u64>,
    /// With a consumer.
    pub messages_unacknowledged: Option<u64>,
    /// Given back, and waiting to be handed out again (delayed retry, 4.3 and later).
    pub messages_delayed: Option<u64>,
    /// Due, and not yet confirmed by the queues they are dead-lettered to (at-least-once only).
    pub messages_dlx: Option<u64>,
    /// Bytes of all message bodies.
    pub message_bytes: Option<u64>,
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

/// A policy that applies to an exchange: of those that match, the one with the highest priority, alone.
#[derive(Clone, Debug, PartialEq)]
pub struct AppliedPolicy {
    /// The policy.
    pub policy: String,
    /// What it sets.
    pub definition: BTreeMap<String, Value>,
}

impl QueueStats {
    /// Messages that are due and that no queue has taken yet; `None` where the broker does not say.
    #[must_use]
    pub fn dead_letters(&self) -> Option<u64> {
        self.messages_dlx.or_else(|| {
            // Brokers without `messages_dlx`: what is neither ready, nor with a consumer, nor delayed.
            let elsewhere = self.messages_ready?.saturating_add(self.messages_unacknowledged?);
            let elsewhere = elsewhere.saturating_add(self.messages_delayed.unwrap_or_default());
            Some(self.messages?.saturating_sub(elsewhere))
        })
    }
}

/// What a policy definition sets.
pub(crate) fn definition<'de, D: serde::Deserializer<'de>>(
    from: D,
) -> Result<BTreeMap<String, Value>, D::Error> {
    Ok(Option::deserialize(from)?.map(settings).unwrap_or_default())
}

/// An empty definition comes as `[]`, not as `{}`.
pub(crate) fn settings(definition: Value) -> BTreeMap<String, Value> {
    let Value::Object(map) = definition else { return BTreeMap::new() };
    map.into_iter().collect()
}
