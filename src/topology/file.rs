//! `topology.toml`: every key is declared here. Reading checks types, words, bounds and required keys; the rules in `check` judge
//! how values fit together.

use std::{collections::BTreeMap, ops::Deref};

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use toml::Spanned;

use crate::{
    document::{self, Document, Mistake},
    ladder::spec::MAX_QUEUES,
    objects::shard::MAX_SHARDS,
};

/// The effect of a timeout that names none; it is built in.
pub(crate) const DEFAULT_EFFECT: &str = "close";
/// Effects whose SQL is part of the program.
pub const BUILT_IN_EFFECTS: [&str; 3] = [DEFAULT_EFFECT, "cancel", "complete"];

/// A lost connection counts as a delivery of every message that was prefetched on it. RabbitMQ's own default of 20 would park good
/// messages after twenty restarts in a row.
pub(super) const DEFAULT_DELIVERY_LIMIT: i64 = 100;

/// The delay topology of one team: `overdue apply` brings a broker there.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TopologyFile {
    /// Prefix of every exchange and queue; nothing outside it is ever touched, but for the exchange that `compat.x-delay`
    /// names. Letters, digits, `-`, `_` and inner `.`; not `amq`, which belongs to the broker.
    #[schemars(
        with = "String",
        length(min = 1, max = 191),
        regex(pattern = r"^[A-Za-z0-9_-]+(\.+[A-Za-z0-9_-]+)*$"),
        extend("not" = { "pattern": r"^amq(\.|$)" }),
        example = &"orders"
    )]
    pub name: Spanned<String>,
    /// How messages are delayed.
    #[schemars(with = "DelaySection")]
    pub delay: Spanned<DelaySection>,
    /// Type and limits of the queues.
    #[serde(default)]
    #[schemars(with = "QueuesSection")]
    pub queues: QueuesSection,
    /// The business rules: what happens to an order whose time is up. Each has a queue.
    #[serde(default)]
    #[schemars(with = "Vec<TimeoutSection>", length(min = 1))]
    pub timeout: Vec<Spanned<TimeoutSection>>,
    /// What is tried again, and when.
    #[serde(default)]
    pub retry: RetrySection,
    /// What takes the place of something that is gone.
    #[serde(default)]
    pub compat: CompatSection,
    /// Bodies of notices that other programs have written.
    #[serde(default)]
    pub message: MessageSection,
}

/// How messages are delayed.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DelaySection {
    /// How the broker delays a message.
    #[serde(default)]
    pub strategy: StrategyName,
    /// The delays, shortest first; each is a queue. The strategy `levels` needs at least one.
    #[serde(default)]
    #[schemars(
        with = "Vec<LevelText>",
        length(min = 1),
        extend("uniqueItems" = true),
        example = ["5s", "30m"]
    )]
    pub levels: Option<Spanned<Vec<LevelText>>>,
    /// How much earlier than its name says a level lets a message go; the worker holds it until then. Less than half of
    /// each level, at most 1m; `0s` is none. Without it 2s, or a quarter of a level that is shorter than 8s.
    #[serde(default)]
    #[schemars(
        with = "String",
        regex(pattern = "^(0|[1-9][0-9]{0,4})(ms|s|m|h|d)$"),
        example = "500ms"
    )]
    pub lead: Option<Spanned<String>>,
    /// With the strategy `ladder`: any delay, by queues that add up to it.
    #[serde(default)]
    #[schemars(with = "LadderSection")]
    pub ladder: Option<Spanned<LadderSection>>,
}

/// How the broker delays a message.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum StrategyName {
    /// One queue per level: message TTL, then the dead letter exchange. Every broker has it.
    #[default]
    Levels,
    /// Queues whose message TTLs add up to any delay to the second. Every broker has it.
    Ladder,
    /// An exchange of the plugin `rabbitmq_delayed_message_exchange`: any delay. Not on RabbitMQ 4.3 and later.
    DelayedExchange,
}

/// Any delay, by queues that add up to it.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct LadderSection {
    /// The longest delay, whole seconds.
    pub max: LevelText,
    /// At most so many queues, for the fewest hops; without it as few as round delays take, e.g. 81 for 30 days.
    #[serde(default)]
    #[schemars(with = "u32", range(min = 1, max = MAX_QUEUES), example = 130)]
    pub queues: Option<Spanned<u32>>,
}

/// Type and limits of the queues.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct QueuesSection {
    /// Type of every queue.
    #[serde(default, rename = "type")]
    #[schemars(with = "QueueType", extend("default" = QueueType::Quorum))]
    pub queue_type: Option<Spanned<QueueType>>,
    /// Deliveries of one message before it is parked (quorum queues only).
    #[serde(default)]
    #[schemars(
        with = "i64",
        range(min = 1, max = 1_000_000),
        extend("default" = DEFAULT_DELIVERY_LIMIT),
        example = 100
    )]
    pub delivery_limit: Option<Spanned<i64>>,
}

/// The queue types a delay can be built on.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum QueueType {
    /// Replicated, at-least-once dead-lettering.
    #[default]
    Quorum,
    /// Not replicated, at-most-once dead-lettering; for development and comparisons.
    Classic,
}

/// A business rule: what happens to an order whose time is up.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct TimeoutSection {
    /// Business name: queue `<topology>.<name>`, routing key `<level>.<name>`. Letters, digits, `-` and `_`; not `parked`.
    #[schemars(
        with = "String",
        length(min = 1, max = 63),
        regex(pattern = "^[A-Za-z0-9_-]+$"),
        extend("not" = { "const": "parked" }),
        example = &"unpaid"
    )]
    pub name: Spanned<String>,
    /// The level a publisher uses when it names no other.
    pub after: LevelText,
    /// Which SQL runs when it is due; `close`, `cancel` and `complete` are built in, others are in the settings.
    #[serde(default)]
    #[schemars(with = "String", length(min = 1), extend("default" = DEFAULT_EFFECT), example = &"close")]
    pub effect: Option<Spanned<String>>,
    /// Levels by order category, e.g. `virtual`.
    #[serde(default)]
    #[schemars(extend("propertyNames" = { "minLength": 1 }))]
    pub after_by_category: BTreeMap<String, LevelText>,
    /// So many queues in place of one, `<topology>.<name>.shard-0` and so on, for what one queue cannot carry. The broker needs
    /// its plugin `rabbitmq_consistent_hash_exchange`.
    #[serde(default)]
    #[schemars(with = "u16", range(min = 2, max = MAX_SHARDS), example = 8)]
    pub shards: Option<Spanned<u16>>,
    /// What becomes of a notice whose row is not in the database.
    #[serde(default)]
    #[schemars(with = "Gone", extend("default" = Gone::Park))]
    pub gone: Option<Spanned<Gone>>,
}

/// What becomes of a notice whose row is not in the database.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Gone {
    /// It is a fault: the notice is tried again, and parked in the end.
    #[default]
    Park,
    /// Rows are deleted: the row is looked for once more after the first retry level, then the notice is acked.
    Ack,
}

/// What is tried again, and when.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct RetrySection {
    /// Levels of the first, second, … retry; after the last one the message is parked.
    #[serde(default)]
    #[schemars(with = "Vec<LevelText>", example = ["5s", "30s"])]
    pub after: Option<Spanned<Vec<LevelText>>>,
}

/// What takes the place of something that is gone.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct CompatSection {
    /// An exchange of the delayed message plugin, whose publishers and consumers go on as they are.
    #[serde(default, rename = "x-delay")]
    #[schemars(with = "XDelaySection")]
    pub x_delay: Option<XDelaySection>,
}

/// An exchange of the delayed message plugin, whose publishers and consumers go on as they are.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct XDelaySection {
    /// The name that its publishers use.
    #[schemars(with = "String", length(min = 1, max = 255), example = &"delayed")]
    pub exchange: Spanned<String>,
    /// How it routes what is due: its argument `x-delayed-type`.
    #[serde(default, rename = "type")]
    pub routing: RoutingType,
}

/// How an exchange routes.
#[derive(Clone, Copy, Debug, Default, Deserialize, JsonSchema, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum RoutingType {
    /// By the same routing key.
    #[default]
    Direct,
    /// By a pattern of the routing key.
    Topic,
    /// To every queue.
    Fanout,
    /// By headers.
    Headers,
}

/// Bodies of notices that other programs have written.
#[derive(Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct MessageSection {
    /// Where the order id is in a body: JSON pointers (RFC 6901), of which the first that leads to a value counts;
    /// `/order_id` is the last of them.
    #[serde(default)]
    #[schemars(
        with = "Vec<String>",
        inner(regex(pattern = "^(/([^~/]|~[01])*)+$")),
        example = ["/message/orderId"]
    )]
    pub order_id: Option<Spanned<Vec<String>>>,
}

/// A delay level: whole number and one unit (ms, s, m, h, d), up to ten years.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(transparent)]
// The pattern limits the number of digits of each unit, and the first digit of the longest number. `overdue check` enforces the
// exact limit.
#[schemars(
    extend("pattern" = "^(([1-9][0-9]{0,10}|[1-3][0-9]{11})ms|([1-9][0-9]{0,7}|[1-3][0-9]{8})s\
        |([1-9][0-9]{0,5}|[1-5][0-9]{6})m|([1-9][0-9]{0,3}|[1-8][0-9]{4})h\
        |([1-9][0-9]{0,2}|[1-3][0-9]{3})d)$"),
    example = "30m"
)]
pub(crate) struct LevelText(#[schemars(with = "String")] Spanned<String>);

impl Deref for LevelText {
    type Target = Spanned<String>;

    fn deref(&self) -> &Spanned<String> {
        &self.0
    }
}

/// The JSON Schema of the file, for editors. It describes single values; `overdue check` judges how values fit together.
pub fn schema() -> Json {
    document::schema::<TopologyFile>("topology.toml")
}

/// Parses `text`. The mistakes are in the order of the file.
pub(super) fn read(text: &str) -> Result<TopologyFile, Vec<Mistake>> {
    let document = Document::parse(text).map_err(|mistake| vec![mistake])?;
    match document.mistakes(&schema()) {
        none if none.is_empty() => document.read().map_err(|mistake| vec![mistake]),
        mistakes => Err(mistakes),
    }
}

impl TopologyFile {
    pub(crate) fn delay(&self) -> &DelaySection {
        self.delay.get_ref()
    }

    /// The section of a delayed message exchange that the topology takes over.
    pub(crate) fn x_delay(&self) -> Option<&XDelaySection> {
        self.compat.x_delay.as_ref()
    }
}

impl DelaySection {
    /// The levels; empty if the key is missing.
    pub(crate) fn levels(&self) -> &[LevelText] {
        self.levels.as_ref().map_or(&[], |levels| levels.get_ref())
    }
}

impl QueuesSection {
    /// The given type or the default.
    pub(crate) fn queue_type(&self) -> QueueType {
        self.queue_type.as_ref().map_or_else(QueueType::default, |given| *given.get_ref())
    }

    /// The given limit or the default.
    pub(crate) fn delivery_limit(&self) -> i64 {
        self.delivery_limit.as_ref().map_or(DEFAULT_DELIVERY_LIMIT, |limit| *limit.get_ref())
    }
}

impl QueueType {
    /// The value of `x-queue-type`.
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Quorum => "quorum",
            Self::Classic => "classic",
        }
    }
}

impl TimeoutSection {
    /// The given effect or the default.
    pub(crate) fn effect(&self) -> &str {
        self.effect.as_ref().map_or(DEFAULT_EFFECT, |effect| effect.get_ref())
    }

    /// The given disposition, or the default, of a notice without a row in the database.
    pub(crate) fn gone(&self) -> Gone {
        self.gone.as_ref().map_or_else(Gone::default, |gone| *gone.get_ref())
    }

    /// The level of `after`, then the levels of the categories.
    pub(crate) fn levels(&self) -> impl Iterator<Item = &LevelText> {
        std::iter::once(&self.after).chain(self.after_by_category.values())
    }
}

impl RetrySection {
    /// The levels; empty if the key is missing.
    pub(crate) fn levels(&self) -> &[LevelText] {
        self.after.as_ref().map_or(&[], |after| after.get_ref())
    }
}
