//! Objects as `rabbitmq_http_client` has them, and as this program has them.

use std::collections::BTreeMap;

use rabbitmq_http_client::{commons::BindingDestinationType, responses};
use serde_json::Value;

use crate::objects::{Argument, Binding, Exchange, Queue};

pub(super) fn json_arguments(
    arguments: &BTreeMap<String, Argument>,
) -> serde_json::Map<String, Value> {
    let json = |argument: &Argument| match argument {
        Argument::Text(text) => Value::from(text.as_str()),
        Argument::Integer(number) => Value::from(*number),
        Argument::Flag(flag) => Value::from(*flag),
    };
    arguments.iter().map(|(key, value)| (key.clone(), json(value))).collect()
}

fn arguments_of(arguments: responses::XArguments) -> BTreeMap<String, Argument> {
    let argument = |value: Value| match value {
        Value::String(text) => Argument::Text(text),
        Value::Bool(flag) => Argument::Flag(flag),
        Value::Number(number) if number.is_i64() => {
            Argument::Integer(number.as_i64().unwrap_or_default())
        }
        other => Argument::Text(other.to_string()),
    };
    arguments.0.into_iter().map(|(key, value)| (key, argument(value))).collect()
}

pub(super) fn exchange_of(info: responses::ExchangeInfo) -> Exchange {
    Exchange {
        name: info.name,
        kind: info.exchange_type,
        durable: info.durable,
        auto_delete: info.auto_delete,
        arguments: arguments_of(info.arguments),
    }
}

pub(super) fn queue_of(info: responses::QueueInfo) -> Queue {
    let mut arguments = arguments_of(info.arguments);
    // The type is a property of its own; whether it was also written as an argument makes no difference.
    arguments.remove("x-queue-type");
    Queue {
        name: info.name,
        kind: info.queue_type,
        durable: info.durable,
        auto_delete: info.auto_delete,
        exclusive: info.exclusive,
        arguments,
    }
}

pub(super) fn binding_of(info: responses::BindingInfo) -> Binding {
    Binding {
        source: info.source,
        destination: info.destination,
        to_queue: matches!(info.destination_type, BindingDestinationType::Queue),
        routing_key: info.routing_key,
        arguments: arguments_of(info.arguments),
    }
}
