//! Objects of the RabbitMQ messaging topology operator, from 1.17 on
//! (<https://www.rabbitmq.com/kubernetes/operator/using-topology-operator>).

use serde_json::{Map, Value};

use super::{Item, destination_type, items, names};
use crate::{objects::arguments_json, topology::Topology};

/// Where the objects go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Target {
    /// The virtual host.
    pub vhost: String,
    /// Name of the `RabbitmqCluster`.
    pub cluster: String,
    /// Namespace of the objects and of the cluster; without it the one `kubectl` uses.
    pub namespace: Option<String>,
}

/// YAML documents, one per object. The operator retries until what an object refers to is there, so their
/// order is not essential.
///
/// Queues outlive their Kubernetes object (`deletionPolicy: retain`): messages may wait in them.
pub fn render(topology: &Topology, target: &Target) -> String {
    let items = items(topology);
    let documents = items.iter().map(|item| document(item, &items, target));
    format!(
        "# Topology {} in virtual host {:?}, for the messaging topology operator (1.17 or newer).\n{}",
        topology.name,
        target.vhost,
        documents.collect::<Vec<_>>().concat()
    )
}

fn document(item: &Item, items: &[Item], target: &Target) -> String {
    let vhost = ("vhost", Value::from(target.vhost.as_str()));
    let (kind, name, fields, with) = match item {
        Item::Exchange(exchange) => {
            let fields = vec![
                ("name", Value::from(exchange.name.as_str())),
                vhost,
                ("type", Value::from(exchange.kind.as_str())),
                ("durable", Value::from(exchange.durable)),
                ("autoDelete", Value::from(exchange.auto_delete)),
            ];
            ("Exchange", exchange.name.clone(), fields, arguments_json(&exchange.arguments))
        }
        Item::Queue(queue) => {
            let fields = vec![
                ("name", Value::from(queue.name.as_str())),
                vhost,
                ("type", Value::from(queue.kind.as_str())),
                ("durable", Value::from(queue.durable)),
                ("autoDelete", Value::from(queue.auto_delete)),
                ("deletionPolicy", Value::from("retain")),
            ];
            ("Queue", queue.name.clone(), fields, arguments_json(&queue.arguments))
        }
        Item::Binding(binding) => {
            let fields = vec![
                vhost,
                ("source", Value::from(binding.source.as_str())),
                ("destination", Value::from(binding.destination.as_str())),
                ("destinationType", Value::from(destination_type(binding))),
                ("routingKey", Value::from(binding.routing_key.as_str())),
            ];
            let name = names::of_binding(binding, items, "-to-");
            ("Binding", name, fields, arguments_json(&binding.arguments))
        }
    };
    let namespace = target.namespace.as_ref().map(|name| Value::from(name.as_str()));
    let namespace = namespace.map(|name| format!("  namespace: {name}\n"));
    format!(
        "---\napiVersion: rabbitmq.com/v1beta1\nkind: {kind}\nmetadata:\n  name: {}\n{}spec:\n{}{}  \
         rabbitmqClusterReference:\n    name: {}\n",
        Value::from(names::dns(&name)),
        namespace.unwrap_or_default(),
        lines(fields),
        mapping(&with),
        Value::from(target.cluster.as_str()),
    )
}

/// Every JSON value is a YAML value, quoted so that nothing is taken for another type.
fn lines(fields: Vec<(&str, Value)>) -> String {
    let lines = fields.into_iter().map(|(key, value)| format!("  {key}: {value}\n"));
    lines.collect::<Vec<_>>().concat()
}

fn mapping(arguments: &Map<String, Value>) -> String {
    if arguments.is_empty() {
        return String::new();
    }
    let entries = arguments.iter().map(|(key, value)| format!("    {key}: {value}\n"));
    format!("  arguments:\n{}", entries.collect::<Vec<_>>().concat())
}
