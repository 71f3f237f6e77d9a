//! Commands of rabbitmqadmin v2, from 2.1 on (<https://www.rabbitmq.com/docs/management-cli>).

use serde_json::{Map, Value};

use super::{Item, destination_type, items};
use crate::{
    objects::arguments_json,
    text::{option, quote},
    topology::Topology,
};

/// A shell script that creates the objects in `vhost`, again and again without effect; it stops at the first
/// command that fails, and can be run again.
pub fn render(topology: &Topology, vhost: &str) -> String {
    let commands: Vec<String> =
        items(topology).iter().map(|item| command(item, vhost) + "\n").collect();
    format!(
        "#!/bin/sh\n\
         # Topology {} in virtual host {vhost:?}, for rabbitmqadmin v2 (2.1 or newer). Where the broker is and who\n\
         # logs in: RABBITMQADMIN_BASE_URI, RABBITMQADMIN_USERNAME, RABBITMQADMIN_PASSWORD, or its configuration file.\n\
         set -eu\n\n{}",
        topology.name,
        commands.concat()
    )
}

fn command(item: &Item, vhost: &str) -> String {
    let mut words = vec!["rabbitmqadmin".to_owned(), option("--vhost", vhost)];
    let with = match item {
        Item::Exchange(exchange) => {
            words.push(option("exchanges declare --name", &exchange.name));
            words.push(option("--type", &exchange.kind));
            words.push(lifetime(exchange.durable, exchange.auto_delete));
            arguments_json(&exchange.arguments)
        }
        Item::Queue(queue) => {
            words.push(option("queues declare --name", &queue.name));
            words.push(option("--type", &queue.kind));
            words.push(lifetime(queue.durable, queue.auto_delete));
            arguments_json(&queue.arguments)
        }
        Item::Binding(binding) => {
            words.push(option("exchanges bind --source", &binding.source));
            words.push(format!("--destination-type {}", destination_type(binding)));
            words.push(option("--destination", &binding.destination));
            words.push(option("--routing-key", &binding.routing_key));
            arguments_json(&binding.arguments)
        }
    };
    words.extend(with_arguments(with));
    words.join(" ")
}

fn lifetime(durable: bool, auto_delete: bool) -> String {
    format!("--durable {durable} --auto-delete {auto_delete}")
}

fn with_arguments(arguments: Map<String, Value>) -> Option<String> {
    let given = !arguments.is_empty();
    given.then(|| format!("--arguments {}", quote(&Value::from(arguments).to_string())))
}
