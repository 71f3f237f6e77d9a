//! Terraform resources of the provider cyrilgdn/rabbitmq
//! (<https://registry.terraform.io/providers/cyrilgdn/rabbitmq/latest/docs>).

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use super::{Item, arguments_with_type, destination_type, items, names};
use crate::{
    objects::{Argument, Binding, Exchange, Queue, arguments_json},
    topology::Topology,
};

/// Resources of the objects in `vhost`, formatted as `terraform fmt` does.
///
/// Terraform would delete a queue with its messages; `prevent_destroy` makes it stop and say so.
pub fn render(topology: &Topology, vhost: &str) -> String {
    let items = items(topology);
    let resources = items.iter().map(|item| match item {
        Item::Exchange(object) => exchange(object, vhost, &items),
        Item::Queue(object) => queue(object, vhost, &items),
        Item::Binding(object) => binding(object, vhost, &items),
    });
    format!(
        "# Topology {} in virtual host {vhost:?}, for the provider cyrilgdn/rabbitmq (1.8 or newer).\n\
         # A queue is never replaced here: Terraform would delete it with its messages. docs/export.md says how.\n\n{}",
        topology.name,
        resources.collect::<Vec<_>>().join("\n")
    )
}

fn exchange(exchange: &Exchange, vhost: &str, items: &[Item]) -> String {
    let mut settings = vec![
        ("type", text(&exchange.kind)),
        ("durable", exchange.durable.to_string()),
        ("auto_delete", exchange.auto_delete.to_string()),
    ];
    let arguments = arguments_json(&exchange.arguments);
    if !arguments.is_empty() {
        // The provider takes texts only here; `alternate-exchange` is one.
        settings.push(("arguments", map(&arguments, "    ")));
    }
    let after = depends_on(&exchange.arguments, items);
    resource("exchange", &exchange.name, &named(&exchange.name, vhost), &block(&settings), &after)
}

fn queue(queue: &Queue, vhost: &str, items: &[Item]) -> String {
    // As JSON, because the provider sends every value of `arguments` as text.
    let arguments = format!("jsonencode({})", map(&arguments_with_type(queue), "    "));
    let settings = [
        ("durable", queue.durable.to_string()),
        ("auto_delete", queue.auto_delete.to_string()),
        ("arguments_json", arguments),
    ];
    let after =
        depends_on(&queue.arguments, items) + "\n  lifecycle {\n    prevent_destroy = true\n  }\n";
    resource("queue", &queue.name, &named(&queue.name, vhost), &block(&settings), &after)
}

fn binding(binding: &Binding, vhost: &str, items: &[Item]) -> String {
    let mut attributes = vec![
        ("vhost", text(vhost)),
        ("source", reference("exchange", &binding.source) + ".name"),
        ("destination_type", text(destination_type(binding))),
        ("destination", reference(destination_type(binding), &binding.destination) + ".name"),
        ("routing_key", text(&binding.routing_key)),
    ];
    let arguments = arguments_json(&binding.arguments);
    if !arguments.is_empty() {
        let json = format!("jsonencode({})", map(&arguments, "  "));
        attributes.push(("arguments_json", json));
    }
    let name = names::of_binding(binding, items, ".to.");
    resource("binding", &name, &aligned(&attributes, "  "), "", "")
}

fn resource(kind: &str, name: &str, attributes: &str, settings: &str, rest: &str) -> String {
    let name = names::identifier(name);
    format!("resource \"rabbitmq_{kind}\" \"{name}\" {{\n{attributes}{settings}{rest}}}\n")
}

fn named(name: &str, vhost: &str) -> String {
    aligned(&[("name", text(name)), ("vhost", text(vhost))], "  ")
}

fn block(settings: &[(&str, String)]) -> String {
    format!("\n  settings {{\n{}  }}\n", aligned(settings, "    "))
}

/// What has to be there before: the exchange it leads to by argument, with its bindings. What a binding leads to
/// is named in it.
fn depends_on(arguments: &BTreeMap<String, Argument>, items: &[Item]) -> String {
    let keys = ["alternate-exchange", "x-dead-letter-exchange"];
    let Some(Argument::Text(target)) = keys.iter().find_map(|key| arguments.get(*key)) else {
        return String::new();
    };
    let before = items.iter().filter_map(|item| match item {
        Item::Exchange(exchange) if exchange.name == *target => {
            Some(reference("exchange", &exchange.name))
        }
        Item::Binding(binding) if binding.source == *target => {
            Some(reference("binding", &names::of_binding(binding, items, ".to.")))
        }
        _ => None,
    });
    let list: Vec<String> = before.map(|resource| format!("    {resource},\n")).collect();
    if list.is_empty() {
        return String::new();
    }
    format!("\n  depends_on = [\n{}  ]\n", list.concat())
}

fn reference(kind: &str, name: &str) -> String {
    format!("rabbitmq_{kind}.{}", names::identifier(name))
}

/// `key = value` lines with the signs below each other; a value of several lines stands by itself.
fn aligned(attributes: &[(&str, String)], indent: &str) -> String {
    let single = |value: &str| !value.contains('\n');
    let keys = attributes.iter().filter(|(_, value)| single(value)).map(|(key, _)| key.len());
    let width = keys.max().unwrap_or_default();
    let line = |(key, value): &(&str, String)| {
        let width = if single(value) { width } else { 0 };
        format!("{indent}{key:width$} = {value}\n")
    };
    attributes.iter().map(line).collect()
}

/// A map or object whose brace closes at `indent`.
fn map(arguments: &Map<String, Value>, indent: &str) -> String {
    let value = |value: &Value| value.as_str().map_or_else(|| value.to_string(), text);
    let keys: Vec<String> = arguments.keys().map(|key| text(key)).collect();
    let entries: Vec<(&str, String)> =
        keys.iter().map(String::as_str).zip(arguments.values().map(value)).collect();
    format!("{{\n{}{indent}}}", aligned(&entries, &format!("{indent}  ")))
}

/// A quoted template without any interpolation
/// (<https://developer.hashicorp.com/terraform/language/expressions/strings#escape-sequences>).
fn text(text: &str) -> String {
    Value::from(text).to_string().replace("${", "$${").replace("%{", "%%{")
}
