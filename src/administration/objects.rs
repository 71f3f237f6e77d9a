//! Objects as the management API describes them, and their conversion to this program's objects.

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::objects::{Arguments, Binding, Exchange, Queue};

#[derive(Deserialize)]
pub(super) struct ExchangeInfo {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    durable: bool,
    auto_delete: bool,
    internal: bool,
    arguments: Map<String, Value>,
}

#[derive(Deserialize)]
pub(super) struct QueueInfo {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    durable: bool,
    auto_delete: bool,
    exclusive: bool,
    arguments: Map<String, Value>,
}

// Without statistics, the broker answers from its tables, for ten thousand queues in a fraction of a second.
impl ExchangeInfo {
    pub(super) const QUERY: [(&str, &str); 1] =
        [("columns", "name,type,durable,auto_delete,internal,arguments")];
}

impl QueueInfo {
    pub(super) const QUERY: [(&str, &str); 2] = [
        ("disable_stats", "true"),
        ("columns", "name,type,durable,auto_delete,exclusive,arguments"),
    ];
}

#[derive(Deserialize)]
pub(super) struct BindingInfo {
    pub(super) source: String,
    destination: String,
    destination_type: String,
    pub(super) routing_key: String,
    pub(super) arguments: Map<String, Value>,
    /// Identifies the binding among all bindings with the same source and destination.
    #[serde(default)]
    pub(super) properties_key: Option<String>,
}

fn arguments_of(arguments: Map<String, Value>) -> Arguments {
    arguments.into_iter().map(|(key, value)| (key, value.into())).collect()
}

impl From<ExchangeInfo> for Exchange {
    fn from(info: ExchangeInfo) -> Self {
        let ExchangeInfo { name, kind, durable, auto_delete, internal, arguments } = info;
        let arguments = arguments_of(arguments);
        Self { name, kind, durable, auto_delete, internal, arguments }
    }
}

impl From<QueueInfo> for Queue {
    fn from(info: QueueInfo) -> Self {
        let QueueInfo { name, kind, durable, auto_delete, exclusive, arguments } = info;
        let mut arguments = arguments_of(arguments);
        // The type is a field of its own; it makes no difference whether it was also declared as an argument.
        arguments.remove("x-queue-type");
        Self { name, kind, durable, auto_delete, exclusive, arguments }
    }
}

impl From<BindingInfo> for Binding {
    fn from(info: BindingInfo) -> Self {
        Self {
            source: info.source,
            destination: info.destination,
            to_queue: info.destination_type == "queue",
            routing_key: info.routing_key,
            arguments: arguments_of(info.arguments),
        }
    }
}
