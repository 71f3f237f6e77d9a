//! Exchanges, queues and bindings as plain data: what a topology wants and what a broker has, in the same types.

pub(crate) mod mark;
pub(crate) mod routing;
pub(crate) mod shard;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use schemars::JsonSchema;
use serde::Serialize;
use serde_json::{Map, Value};

/// Exchanges, queues and bindings of one virtual host, desired or observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Objects {
    /// Exchanges by name.
    pub exchanges: BTreeMap<String, Exchange>,
    /// Queues by name.
    pub queues: BTreeMap<String, Queue>,
    /// Bindings; the broker has each only once.
    pub bindings: BTreeSet<Binding>,
}

/// Arguments by name.
pub(crate) type Arguments = BTreeMap<String, Argument>;

/// An exchange as the broker sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Exchange {
    /// Unique among the exchanges of a virtual host; empty for the default exchange.
    pub name: String,
    /// `topic`, `fanout`, …
    #[serde(rename = "type")]
    pub kind: String,
    /// Survives a restart of the broker.
    pub durable: bool,
    /// Deleted with its last binding.
    pub auto_delete: bool,
    /// Takes messages from other exchanges only: a publisher is refused.
    pub internal: bool,
    /// `x-arguments`, e.g. `alternate-exchange`.
    pub arguments: Arguments,
}

/// A queue as the broker sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Queue {
    /// Unique among the queues of a virtual host.
    pub name: String,
    /// `quorum`, `classic`, `stream`; not repeated as an argument.
    #[serde(rename = "type")]
    pub kind: String,
    /// Survives a restart of the broker.
    pub durable: bool,
    /// Deleted when its last consumer leaves.
    pub auto_delete: bool,
    /// Belongs to one connection.
    pub exclusive: bool,
    /// `x-arguments`, without `x-queue-type`.
    pub arguments: Arguments,
}

/// The type of the exchange that the plugin `rabbitmq_delayed_message_exchange` brings.
pub(crate) const DELAYED_MESSAGE: &str = "x-delayed-message";
/// The argument with the type by which such an exchange routes.
pub(crate) const DELAYED_TYPE: &str = "x-delayed-type";

impl Exchange {
    /// The type by which it compares routing keys; `x-delayed-type` for an exchange of the delayed message plugin.
    pub fn routing_type(&self) -> &str {
        let delayed = (self.kind == DELAYED_MESSAGE).then(|| text(&self.arguments, DELAYED_TYPE));
        delayed.flatten().unwrap_or(&self.kind)
    }

    /// Exchange for messages without a matching binding.
    pub fn alternate(&self) -> Option<&str> {
        text(&self.arguments, "alternate-exchange")
    }
}

impl Queue {
    /// The exchange for expired and rejected messages.
    pub fn dead_letter_exchange(&self) -> Option<&str> {
        text(&self.arguments, "x-dead-letter-exchange")
    }

    /// The routing key of dead letters; `None`: messages keep their keys.
    pub fn dead_letter_routing_key(&self) -> Option<&str> {
        text(&self.arguments, "x-dead-letter-routing-key")
    }

    /// TTL of messages in milliseconds; `None`: no limit.
    pub fn message_ttl_ms(&self) -> Option<i64> {
        self.arguments.get("x-message-ttl").and_then(Argument::integer)
    }
}

fn text<'a>(arguments: &'a Arguments, key: &str) -> Option<&'a str> {
    arguments.get(key).and_then(Argument::text)
}

/// A binding of a queue or an exchange to an exchange.
// Sorted by exchange first, so that `routing` finds the bindings of an exchange in a set.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
pub struct Binding {
    /// The exchange messages come from.
    pub source: String,
    /// The queue or exchange they go to.
    pub destination: String,
    /// Whether the destination is a queue.
    pub to_queue: bool,
    /// The routing key or pattern.
    pub routing_key: String,
    /// Arguments, for headers exchanges.
    pub arguments: Arguments,
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, JsonSchema)]
#[serde(untagged)]
pub enum Argument {
    /// A number; TTLs are milliseconds.
    Integer(i64),
    /// A boolean.
    Flag(bool),
    /// A string; what the broker has of another type is held as its JSON text.
    Text(String),
}

impl Argument {
    /// The value, if it is a string.
    pub fn text(&self) -> Option<&str> {
        match self {
            Self::Text(text) => Some(text),
            _ => None,
        }
    }

    /// The value, if it is a number.
    pub const fn integer(&self) -> Option<i64> {
        match self {
            Self::Integer(number) => Some(*number),
            _ => None,
        }
    }
}

/// Reads a value of the broker's JSON.
impl From<Value> for Argument {
    fn from(value: Value) -> Self {
        match value {
            Value::String(text) => Self::Text(text),
            Value::Bool(flag) => Self::Flag(flag),
            other => other.as_i64().map_or_else(|| Self::Text(other.to_string()), Self::Integer),
        }
    }
}

/// Writes a value of the broker's JSON.
impl From<&Argument> for Value {
    fn from(argument: &Argument) -> Self {
        match argument {
            Argument::Text(text) => Self::from(text.as_str()),
            Argument::Integer(number) => Self::from(*number),
            Argument::Flag(flag) => Self::from(*flag),
        }
    }
}

/// Arguments as a JSON object; numbers stay numbers.
pub(crate) fn arguments_json(arguments: &Arguments) -> Map<String, Value> {
    arguments.iter().map(|(key, value)| (key.clone(), value.into())).collect()
}

impl fmt::Display for Argument {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Text(text) => f.write_str(text),
            Self::Integer(number) => write!(f, "{number}"),
            Self::Flag(flag) => write!(f, "{flag}"),
        }
    }
}

impl From<&str> for Argument {
    fn from(text: &str) -> Self {
        Self::Text(text.to_owned())
    }
}

impl Exchange {
    /// A topic exchange. Messages without a matching binding are routed to `alternate`, or returned.
    pub(crate) fn topic(name: String, alternate: Option<&str>) -> Self {
        let argument = alternate.map(|to| ("alternate-exchange".to_owned(), to.into()));
        let (kind, arguments) = ("topic".to_owned(), argument.into_iter().collect());
        Self { name, kind, durable: true, auto_delete: false, internal: false, arguments }
    }
}

impl Queue {
    /// A queue that delays each message by `ttl_ms` and dead-letters it to `exchange` with the message's routing key.
    ///
    /// At-least-once needs all three arguments; without reject-publish the broker silently falls back to
    /// at-most-once (<https://www.rabbitmq.com/docs/quorum-queues#dead-lettering>). Classic queues have only the first.
    pub(crate) fn delaying(name: String, ttl_ms: i64, exchange: &str, quorum: bool) -> Self {
        let mut arguments = Arguments::from([
            ("x-dead-letter-exchange".to_owned(), exchange.into()),
            ("x-message-ttl".to_owned(), Argument::Integer(ttl_ms)),
        ]);
        if quorum {
            arguments.insert("x-dead-letter-strategy".to_owned(), "at-least-once".into());
            arguments.insert("x-overflow".to_owned(), "reject-publish".into());
        }
        let kind = if quorum { "quorum" } else { "classic" }.to_owned();
        Self { name, kind, durable: true, auto_delete: false, exclusive: false, arguments }
    }
}

impl Objects {
    /// Binds a queue to the exchange `source`.
    pub(crate) fn bind_queue(&mut self, source: &str, queue: &str, pattern: &str) {
        self.bindings.insert(plain(source, queue, pattern, true));
    }

    /// Binds the exchange `destination` to the exchange `source`.
    pub(crate) fn bind_exchange(&mut self, source: &str, destination: &str, pattern: &str) {
        self.bindings.insert(plain(source, destination, pattern, false));
    }
}

fn plain(source: &str, destination: &str, pattern: &str, to_queue: bool) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue,
        routing_key: pattern.to_owned(),
        arguments: Arguments::new(),
    }
}
