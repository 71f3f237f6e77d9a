//! `topology.toml` as written, with places: as far as it can be read, nothing judged yet. Its keys: `keys`.

use std::collections::BTreeMap;

use serde::Deserialize;
use toml::Spanned;

use super::{
    lead::{Lead, LeadError},
    x_delay::RoutingType,
};

/// What happens to an order that is due, where a timeout does not say: it is built in.
pub(crate) const DEFAULT_EFFECT: &str = "close";
/// Effects whose SQL is part of the program.
pub const BUILT_IN_EFFECTS: [&str; 3] = [DEFAULT_EFFECT, "cancel", "complete"];

/// RabbitMQ's own default since 4.0, written out so that an older or newer broker does the same.
pub(super) const DEFAULT_DELIVERY_LIMIT: i64 = 20;

/// The delay topology of one team: `overdue apply` brings a broker there.
#[derive(Debug, Deserialize)]
pub(crate) struct TopologyFile {
    /// Prefix of every exchange and queue; nothing outside it is ever touched.
    pub name: Spanned<String>,
    /// How messages are delayed.
    pub delay: Spanned<DelaySection>,
    /// Type and limits of the queues.
    #[serde(default)]
    pub queues: QueuesSection,
    /// The business rules: what happens to an order whose time is up. Each has a queue.
    #[serde(default)]
    pub timeout: Vec<Spanned<TimeoutSection>>,
    /// What is tried again, and when.
    #[serde(default)]
    pub retry: RetrySection,
    /// What takes the place of something that is gone.
    #[serde(default)]
    pub compat: CompatSection,
}

impl TopologyFile {
    /// How messages are delayed.
    pub(crate) fn delay(&self) -> &DelaySection {
        self.delay.get_ref()
    }

    /// An exchange of the delayed message plugin that is taken over.
    pub(crate) fn x_delay(&self) -> Option<&XDelaySection> {
        self.compat.x_delay.as_ref()
    }
}

/// How messages are delayed.
#[derive(Debug, Deserialize)]
pub(crate) struct DelaySection {
    /// How the broker delays.
    #[serde(default)]
    pub strategy: StrategyName,
    /// Delays with a queue each, shortest first.
    #[serde(default)]
    pub levels: Option<Spanned<Vec<Spanned<String>>>>,
    /// How early levels let go.
    #[serde(default)]
    pub lead: Option<Spanned<String>>,
    /// Any delay, by queues that add up to it.
    #[serde(default)]
    pub ladder: Option<Spanned<LadderSection>>,
}

/// What takes the place of something that is gone.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct CompatSection {
    /// An exchange of the delayed message plugin.
    #[serde(default, rename = "x-delay")]
    pub x_delay: Option<XDelaySection>,
}

/// An exchange of the delayed message plugin that is taken over.
#[derive(Debug, Deserialize)]
pub(crate) struct XDelaySection {
    /// The name that its publishers use.
    pub exchange: Spanned<String>,
    /// How it routes what is due.
    #[serde(default, rename = "type")]
    pub routing: RoutingType,
}

/// Any delay, by queues that add up to it.
#[derive(Debug, Deserialize)]
pub(crate) struct LadderSection {
    /// The longest delay.
    pub max: Spanned<String>,
    /// At most so many queues.
    #[serde(default)]
    pub queues: Option<Spanned<u32>>,
}

impl DelaySection {
    /// The levels, given or not.
    pub(crate) fn levels(&self) -> &[Spanned<String>] {
        self.levels.as_ref().map_or(&[], |levels| levels.get_ref())
    }

    /// How early levels let go, given or not.
    ///
    /// # Errors
    /// The text is not a lead.
    pub(crate) fn lead(&self) -> Result<Lead, LeadError> {
        self.lead.as_ref().map_or(Ok(Lead::Usual), |text| text.get_ref().parse())
    }
}

/// How the broker delays a message.
#[derive(Clone, Copy, Debug, Default, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StrategyName {
    /// One queue per level: message TTL, then the dead letter exchange. Every broker has it.
    #[default]
    Levels,
    /// Queues whose message TTLs add up to any delay. Every broker has it.
    Ladder,
    /// An exchange of the plugin `rabbitmq_delayed_message_exchange`, before RabbitMQ 4.3.
    DelayedExchange,
}

/// Type and limits of the queues.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct QueuesSection {
    /// Type of every queue.
    #[serde(default, rename = "type")]
    pub queue_type: Option<Spanned<QueueType>>,
    /// Deliveries of one message before it is parked (quorum queues only).
    #[serde(default)]
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

impl QueuesSection {
    /// The type, given or not.
    #[must_use]
    pub(crate) fn queue_type(&self) -> QueueType {
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

/// A business rule: what happens to an order whose time is up.
#[derive(Debug, Deserialize)]
pub(crate) struct TimeoutSection {
    /// Business name: queue `<topology>.<name>`, routing key `<level>.<name>`.
    pub name: Spanned<String>,
    /// The level a publisher uses when it names no other.
    pub after: Spanned<String>,
    /// Which SQL runs when it is due; `close`, `cancel` and `complete` are built in, others are in the settings.
    #[serde(default)]
    pub effect: Option<Spanned<String>>,
    /// Levels by order category, e.g. `virtual`.
    #[serde(default)]
    pub after_by_category: BTreeMap<String, Spanned<String>>,
}

impl TimeoutSection {
    /// The effect, given or not.
    #[must_use]
    pub(crate) fn effect(&self) -> &str {
        self.effect.as_ref().map_or(DEFAULT_EFFECT, |effect| effect.get_ref())
    }

    /// Every level it names.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &Spanned<String>> {
        std::iter::once(&self.after).chain(self.after_by_category.values())
    }
}

/// What is tried again, and when.
#[derive(Debug, Default, Deserialize)]
pub(crate) struct RetrySection {
    /// Levels of the first, second, … retry; after the last one the message is parked.
    #[serde(default)]
    pub after: Option<Spanned<Vec<Spanned<String>>>>,
}

impl RetrySection {
    /// The levels, given or not.
    #[must_use]
    pub(crate) fn levels(&self) -> &[Spanned<String>] {
        self.after.as_ref().map_or(&[], |after| after.get_ref())
    }
}
