//! `topology.toml` as written: spans kept, unknown keys refused, nothing judged yet.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

/// The whole file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopologyFile {
    /// Prefix of every object; nothing outside it is ever touched.
    pub name: Spanned<String>,
    /// The delay levels.
    pub delay: DelaySection,
    /// Queue type and limits.
    #[serde(default)]
    pub queues: QueuesSection,
    /// One business queue per timeout.
    #[serde(default)]
    pub timeout: Vec<Spanned<TimeoutSection>>,
    /// Levels of the retries.
    #[serde(default)]
    pub retry: RetrySection,
}

/// `[delay]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DelaySection {
    /// How the broker delays.
    #[serde(default)]
    pub strategy: Strategy,
    /// Levels, shortest first.
    pub levels: Spanned<Vec<Spanned<String>>>,
}

/// How the broker delays a message.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// One queue per level: message TTL, then the dead letter exchange. Every broker has it.
    #[default]
    Levels,
}

/// `[queues]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueuesSection {
    /// Type of every queue.
    #[serde(default, rename = "type")]
    pub queue_type: QueueType,
    /// Deliveries of one message before it is parked (quorum queues only).
    pub delivery_limit: Option<Spanned<i64>>,
}

/// The queue types a delay can be built on.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum QueueType {
    /// Replicated, at-least-once dead-lettering.
    #[default]
    Quorum,
    /// Not replicated, at-most-once dead-lettering; for development and comparisons.
    Classic,
}

impl QueueType {
    /// The value of `x-queue-type`.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

/// One `[[timeout]]`
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TimeoutSection {
    /// Business name: queue `<topology>.<name>`, routing key `<level>.<name>`.
    pub name: Spanned<String>,
    /// Level a publisher uses when it says nothing else.
    pub after: Spanned<String>,
    /// Which SQL runs when it is due.
    #[serde(default = "close")]
    pub effect: String,
    /// Levels by order category, e.g. `virtual`.
    #[serde(default)]
    pub after_by_category: BTreeMap<String, Spanned<String>>,
}

fn close() -> String {
    "close".to_owned()
}

/// `[retry]`
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RetrySection {
    /// Levels of the first, second, … retry; after the last one the message is parked.
    #[serde(default)]
    pub after: Vec<Spanned<String>>,
}
