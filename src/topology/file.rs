//! `topology.toml` as written: spans kept, unknown keys refused, nothing judged yet.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use toml::Spanned;

use super::schema::{LevelText, TimeoutName, TopologyName};

/// What happens to an order that is due, where a timeout does not say: it is built in.
pub const DEFAULT_EFFECT: &str = "close";

/// The delay topology of one team: `overdue apply` brings a broker there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
#[schemars(title = "topology.toml", extend("required" = ["name", "delay", "timeout"]))]
pub struct TopologyFile {
    /// Prefix of every exchange and queue; nothing outside it is ever touched.
    #[schemars(with = "TopologyName")]
    pub name: Spanned<String>,
    /// How messages are delayed.
    pub delay: DelaySection,
    /// Type and limits of the queues.
    #[serde(default)]
    pub queues: QueuesSection,
    /// The business rules: what happens to an order that did not get on in time. Each has a queue.
    #[serde(default)]
    #[schemars(with = "Vec<TimeoutSection>", length(min = 1))]
    pub timeout: Vec<Spanned<TimeoutSection>>,
    /// What is tried again, and when.
    #[serde(default)]
    pub retry: RetrySection,
}

/// How messages are delayed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct DelaySection {
    /// How the broker delays.
    #[serde(default)]
    #[schemars(extend("default" = "levels"))]
    pub strategy: Strategy,
    /// The delays, shortest first; each is a queue.
    #[schemars(with = "Vec<LevelText>", length(min = 1), extend("uniqueItems" = true))]
    pub levels: Spanned<Vec<Spanned<String>>>,
}

/// How the broker delays a message.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum Strategy {
    /// One queue per level: message TTL, then the dead letter exchange. Every broker has it.
    #[default]
    Levels,
}

/// Type and limits of the queues.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct QueuesSection {
    /// Type of every queue.
    #[serde(default, rename = "type")]
    #[schemars(with = "QueueType", extend("default" = "quorum"))]
    pub queue_type: Option<Spanned<QueueType>>,
    /// Deliveries of one message before it is parked (quorum queues only).
    #[serde(default)]
    #[schemars(with = "i64", range(min = 1, max = 1_000_000), extend("default" = 20))]
    pub delivery_limit: Option<Spanned<i64>>,
}

/// The queue types a delay can be built on.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub enum QueueType {
    /// Replicated, at-least-once dead-lettering.
    #[default]
    Quorum,
    /// Not replicated, at-most-once dead-lettering; for development and comparisons.
    Classic,
}

impl QueuesSection {
    /// The type, given or not.
    #[must_use]
    pub fn queue_type(&self) -> QueueType {
        self.queue_type.as_ref().map_or_else(QueueType::default, |given| *given.get_ref())
    }
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

/// A business rule: what happens to an order that did not get on in time.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TimeoutSection {
    /// Business name: queue `<topology>.<name>`, routing key `<level>.<name>`.
    #[schemars(with = "TimeoutName")]
    pub name: Spanned<String>,
    /// The level a publisher uses when it says nothing else.
    #[schemars(with = "LevelText")]
    pub after: Spanned<String>,
    /// Which SQL runs when it is due; `close` is built in, others are in the settings.
    #[serde(default)]
    #[schemars(with = "String", length(min = 1), extend("default" = DEFAULT_EFFECT))]
    pub effect: Option<Spanned<String>>,
    /// Levels by order category, e.g. `virtual`.
    #[serde(default)]
    #[schemars(
        with = "BTreeMap<String, LevelText>",
        extend("propertyNames" = { "minLength": 1 })
    )]
    pub after_by_category: BTreeMap<String, Spanned<String>>,
}

impl TimeoutSection {
    /// The effect, given or not.
    #[must_use]
    pub fn effect(&self) -> &str {
        self.effect.as_ref().map_or(DEFAULT_EFFECT, |effect| effect.get_ref())
    }

    /// Every level it names.
    pub fn levels(&self) -> impl Iterator<Item = &Spanned<String>> {
        std::iter::once(&self.after).chain(self.after_by_category.values())
    }
}

/// What is tried again, and when.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct RetrySection {
    /// Levels of the first, second, … retry; after the last one the message is parked.
    #[serde(default)]
    #[schemars(with = "Vec<LevelText>", extend("default" = []))]
    pub after: Option<Spanned<Vec<Spanned<String>>>>,
}

impl RetrySection {
    /// The levels, given or not.
    #[must_use]
    pub fn levels(&self) -> &[Spanned<String>] {
        self.after.as_ref().map_or(&[], |after| after.get_ref())
    }
}
