//! The effective settings of a queue: its arguments and the policies that apply to it.
//!
//! Each rule was tried on RabbitMQ 4.3 (docs/verify.md has the table) and read in its source: quorum queues in
//! `rabbit_quorum_queue:gather_policy_config/2`, classic queues in `rabbit_amqqueue_process:process_args_policy/1`.

use crate::{
    objects::{Argument, Queue},
    plan::snapshot::QueueStats,
};

/// Deliveries of one message that `queue` allows; `None` means no limit, as for classic queues.
pub(crate) fn delivery_limit(queue: &Queue, stats: Option<&QueueStats>) -> Option<i64> {
    let effective = Effective { queue, stats };
    if effective.is_quorum() { effective.delivery_limit() } else { None }
}

/// A queue and the policy definition that applies to it.
#[derive(Clone, Copy)]
pub(super) struct Effective<'a> {
    pub(super) queue: &'a Queue,
    pub(super) stats: Option<&'a QueueStats>,
}

impl<'a> Effective<'a> {
    pub(super) fn is_quorum(&self) -> bool {
        self.queue.kind == "quorum"
    }

    /// A number in the queue's own arguments; `key` is the argument's name without `x-`.
    pub(super) fn argument(&self, key: &str) -> Option<i64> {
        match self.queue.arguments.get(&format!("x-{key}"))? {
            Argument::Integer(number) => Some(*number),
            _ => None,
        }
    }

    fn argument_text(&self, key: &str) -> Option<&'a str> {
        match self.queue.arguments.get(&format!("x-{key}"))? {
            Argument::Text(text) => Some(text),
            _ => None,
        }
    }

    /// A number in the policy definition.
    pub(super) fn policy(&self, key: &str) -> Option<i64> {
        self.stats?.effective_policy_definition.get(key)?.as_i64()
    }

    fn policy_text(&self, key: &str) -> Option<&'a str> {
        self.stats?.effective_policy_definition.get(key)?.as_str()
    }

    /// The smaller of argument and policy: for `message-ttl`, `max-length`, `max-length-bytes`, `expires`.
    pub(super) fn least(&self, key: &str) -> Option<i64> {
        [self.argument(key), self.policy(key)].into_iter().flatten().min()
    }

    /// The argument, otherwise the policy: for `dead-letter-…`.
    pub(super) fn own_first(&self, key: &str) -> Option<&'a str> {
        self.argument_text(key).or_else(|| self.policy_text(key))
    }

    /// Whether a full queue rejects messages. On quorum queues the policy wins, and `reject-publish-dlx` means `drop-head`.
    pub(super) fn rejects_when_full(&self) -> bool {
        let (first, then) = if self.is_quorum() {
            (self.policy_text("overflow"), self.argument_text("overflow"))
        } else {
            (self.argument_text("overflow"), self.policy_text("overflow"))
        };
        match first.or(then) {
            Some("reject-publish") => true,
            Some("reject-publish-dlx") => !self.is_quorum(),
            _ => false,
        }
    }

    /// Deliveries of one message; `None` means no limit. The smaller number wins, but a limit overrides "none" (-1).
    pub(super) fn delivery_limit(&self) -> Option<i64> {
        let limit = match (self.argument("delivery-limit"), self.policy("delivery-limit")) {
            (Some(own), Some(policy)) if own < 0 || policy < 0 => own.max(policy),
            (Some(own), Some(policy)) => own.min(policy),
            (own, policy) => own.or(policy).unwrap_or(20),
        };
        (limit >= 0).then_some(limit)
    }

    /// The limit that the queue has reached, in words.
    pub(super) fn full(&self) -> Option<String> {
        let reached = |key: &str, has: Option<u64>| {
            let limit = u64::try_from(self.least(key)?).ok()?;
            (has? >= limit).then(|| format!("{key} {limit} is reached"))
        };
        let stats = self.stats?;
        reached("max-length", stats.messages)
            .or_else(|| reached("max-length-bytes", stats.message_bytes))
    }
}
