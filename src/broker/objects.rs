//! Objects as `rabbitmq_http_client` has them, and as this program has them.

use rabbitmq_http_client::{commons::BindingDestinationType, responses};

use crate::objects::{Arguments, Binding, Exchange, Queue};

fn arguments_of(arguments: responses::XArguments) -> Arguments {
    arguments.0.into_iter().map(|(key, value)| (key, value.into())).collect()
}

pub(super) fn exchange_of(info: responses::ExchangeInfo) -> Exchange {
    Exchange {
        name: info.name,
        kind: info.exchange_type,
        durable: info.durable,
        auto_delete: info.auto_delete,
        // The library leaves it out: where it matters it is asked for.
        internal: false,
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
