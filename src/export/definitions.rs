//! RabbitMQ definitions: loaded at boot (`load_definitions`), by `rabbitmqctl import_definitions`, or by
//! `POST /api/definitions` and `/api/definitions/VHOST` (<https://www.rabbitmq.com/docs/definitions>).

use serde_json::Value;

use super::{Item, arguments_with_type, destination_type, items};
use crate::{
    objects::{Binding, Exchange, Queue, arguments_json},
    text::{json_object, json_sections},
    topology::Topology,
};

/// Definitions JSON of the objects in `vhost`.
///
/// `create_vhost` also puts the virtual host in, for a broker that boots empty. Not otherwise: importing it
/// takes description, tags and default queue type of one that exists.
pub fn render(topology: &Topology, vhost: &str, create_vhost: bool) -> String {
    let (mut exchanges, mut queues, mut bindings) = (Vec::new(), Vec::new(), Vec::new());
    for item in items(topology) {
        match item {
            Item::Exchange(object) => exchanges.push(exchange(&object, vhost)),
            Item::Queue(object) => queues.push(queue(&object, vhost)),
            Item::Binding(object) => bindings.push(binding(&object, vhost)),
        }
    }
    let mut lists = vec![("exchanges", exchanges), ("queues", queues), ("bindings", bindings)];
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
    json_object([
        ("name", Value::from(queue.name.as_str())),
        ("vhost", Value::from(vhost)),
        ("durable", Value::from(queue.durable)),
        ("auto_delete", Value::from(queue.auto_delete)),
        ("arguments", Value::from(arguments_with_type(queue))),
    ])
}

fn binding(binding: &Binding, vhost: &str) -> String {
    json_object([
        ("source", Value::from(binding.source.as_str())),
        ("vhost", Value::from(vhost)),
        ("destination", Value::from(binding.destination.as_str())),
        ("destination_type", Value::from(destination_type(binding))),
        ("routing_key", Value::from(binding.routing_key.as_str())),
        ("arguments", Value::from(arguments_json(&binding.arguments))),
    ])
}
