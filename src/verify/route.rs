//! Where an exchange's routing leads: bindings, exchanges behind exchanges, alternate exchanges.

use std::collections::BTreeSet;

use crate::{
    objects::{Argument, Binding, Exchange, Objects},
    topology::check::topic::overlap,
};

/// Where a message with one routing key comes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// Queues that get it.
    pub queues: BTreeSet<String>,
    /// Exchanges it is sent to that do not exist.
    pub missing: BTreeSet<String>,
}

/// Follows a message that is published to `exchange` with `key`, as the broker would.
///
/// Exchange types other than topic, direct and fanout are taken to route to everything that is bound to them.
#[must_use]
pub fn route(objects: &Objects, exchange: &str, key: &str) -> Routed {
    let mut routed = Routed::default();
    let mut seen = BTreeSet::new();
    let mut next = vec![exchange.to_owned()];
    while let Some(name) = next.pop() {
        if !seen.insert(name.clone()) {
            continue;
        }
        let Some(exchange) = objects.exchanges.get(&name) else {
            routed.missing.insert(name);
            continue;
        };
        let bindings = objects.bindings.iter().filter(|binding| binding.source == name);
        let mut matched = bindings.filter(|binding| matches(exchange, binding, key)).peekable();
        if matched.peek().is_none() {
            next.extend(alternate(exchange).map(str::to_owned));
        }
        for binding in matched {
            if binding.to_queue {
                routed.queues.insert(binding.destination.clone());
            } else {
                next.push(binding.destination.clone());
            }
        }
    }
    routed
}

/// The alternate exchange in the exchange's own arguments.
#[must_use]
pub fn alternate(exchange: &Exchange) -> Option<&str> {
    match exchange.arguments.get("alternate-exchange")? {
        Argument::Text(name) => Some(name),
        _ => None,
    }
}

fn matches(exchange: &Exchange, binding: &Binding, key: &str) -> bool {
    match exchange.kind.as_str() {
        "topic" => overlap(&binding.routing_key, key),
        "direct" => binding.routing_key == key,
        _ => true,
    }
}
