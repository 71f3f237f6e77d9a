//! Exchanges, queues and bindings as plain data: what a topology wants and what a broker has, in the same types.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use serde::{Deserialize, Serialize};

/// Exchanges, queues and bindings of one virtual host, desired or observed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Objects {
    /// By name.
    pub exchanges: BTreeMap<String, Exchange>,
    /// By name.
    pub queues: BTreeMap<String, Queue>,
    /// All of them, each once.
    pub bindings: BTreeSet<Binding>,
}

/// An exchange as the broker sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Exchange {
    /// Its name.
    pub name: String,
    /// `topic`, `fanout`, …
    pub kind: String,
    /// Survives a restart of the broker.
    pub durable: bool,
    /// Goes when its last binding goes.
    pub auto_delete: bool,
    /// `x-arguments`, e.g. `alternate-exchange`.
    pub arguments: BTreeMap<String, Argument>,
}

/// A queue as the broker sees it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// `quorum`, `classic`, `stream`; not repeated as an argument.
    pub kind: String,
    /// Survives a restart of the broker.
    pub durable: bool,
    /// Goes with its last consumer.
    pub auto_delete: bool,
    /// Belongs to one connection.
    pub exclusive: bool,
    /// `x-arguments`, without `x-queue-type`.
    pub arguments: BTreeMap<String, Argument>,
}

/// A binding of a queue or an exchange to an exchange.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
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
    pub arguments: BTreeMap<String, Argument>,
}

/// The value of an argument.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Argument {
    /// A number; TTLs are milliseconds.
    Integer(i64),
    /// A boolean.
    Flag(bool),
    /// A string; what the broker has of another type is held as its JSON text.
    Text(String),
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
