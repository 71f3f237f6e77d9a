//! RabbitMQ definitions: loaded at boot (`load_definitions`), by `rabbitmqctl import_definitions`, or by
//! `POST /api/definitions` and `/api/definitions/VHOST` (<https://www.rabbitmq.com/docs/definitions>).

use serde_json::Value;

use crate::{
    objects::{Binding, Exchange, Queue, arguments_json},
    text::{json_object, json_sections},
    topology::Topology,
};

/// Definitions JSON of the objects in `vhost`.
///
/// `create_vhost` adds the virtual host, for a broker that boots empty. The import would remove description, tags and
/// default queue type of an existing virtual host.
pub fn render(topology: &Topology, vhost: &str, create_vhost: bool) -> String {
    let objects = topology.objects();
    let mut lists = vec![
        ("exchanges", objects.exchanges.values().map(|it| exchange(it, vhost)).collect()),
        ("queues", objects.queues.values().map(|it| queue(it, vhost)).collect()),
        ("bindings", objects.bindings.iter().map(|it| binding(it, vhost)).collect()),
    ];
    if create_vhost {
        lists.insert(0, ("vhosts", vec![json_object([("name", Value::from(vhost))])]));
    }
    json_sections(&lists)
}

fn exchange(exchange: &Exchange, vhost: &str) -> String {
    json_object([
        ("name", Value::from(exchange.name.as_str())),
        ("vhost", Value::from(vhost)),
        ("type", Value::from(exchange.kind.as_str())),
        ("durable", Value::from(exchange.durable)),
        ("auto_delete", Value::from(exchange.auto_delete)),
        ("internal", Value::from(false)),
        ("arguments", Value::from(arguments_json(&exchange.arguments))),
    ])
}

fn queue(queue: &Queue, vhost: &str) -> String {
    let mut arguments = arguments_json(&queue.arguments);
    arguments.insert("x-queue-type".to_owned(), Value::from(queue.kind.as_str()));
    json_object([
        ("name", Value::from(queue.name.as_str())),
        ("vhost", Value::from(vhost)),
        ("durable", Value::from(queue.durable)),
        ("auto_delete", Value::from(queue.auto_delete)),
        ("arguments", Value::from(arguments)),
    ])
}

fn binding(binding: &Binding, vhost: &str) -> String {
    let destination_type = if binding.to_queue { "queue" } else { "exchange" };
    json_object([
        ("source", Value::from(binding.source.as_str())),
        ("vhost", Value::from(vhost)),
        ("destination", Value::from(binding.destination.as_str())),
        ("destination_type", Value::from(destination_type)),
        ("routing_key", Value::from(binding.routing_key.as_str())),
        ("arguments", Value::from(arguments_json(&binding.arguments))),
    ])
}
