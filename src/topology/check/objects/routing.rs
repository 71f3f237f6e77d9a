//! `routing-nowhere` and `routing-overlap`: keys that no binding, or more than one, is for.

use super::{Fault, keys_from, passes, reached};
use crate::objects::{Binding, Objects};

pub(super) fn nowhere(objects: &Objects) -> Vec<Fault> {
    let mut faults: Vec<Fault> =
        objects.bindings.iter().filter_map(|binding| dangling(objects, binding)).collect();
    for queue in objects.queues.values() {
        let Some(exchange) = queue.dead_letter_exchange() else { continue };
        let name = &queue.name;
        let (message, help) = if !exchange.is_empty() && !objects.exchanges.contains_key(exchange) {
            let message = format!("queue {name} dead-letters to {exchange}, which does not exist");
            (message, "run `overdue apply`, which declares it")
        } else {
            let keys = keys_from(objects, queue);
            if !reached(objects, exchange, &keys).is_empty() {
                continue;
            }
            let keys = keys.join(", ");
            let message = format!(
                "what comes out of queue {name} leads nowhere: exchange {exchange} has no binding for the routing \
                 keys {keys}"
            );
            (message, "bind the queue it is for: run `overdue apply`")
        };
        faults.push(Fault { object: name.clone(), message, help: help.to_owned() });
    }
    faults
}

/// A binding from or to something that is not there.
fn dangling(objects: &Objects, binding: &Binding) -> Option<Fault> {
    let Binding { source, destination, to_queue, .. } = binding;
    let there = if *to_queue {
        objects.queues.contains_key(destination)
    } else {
        objects.exchanges.contains_key(destination)
    };
    let missing = if source.is_empty() || objects.exchanges.contains_key(source) {
        (!there).then_some(destination)?
    } else {
        source
    };
    let message = format!("{destination} is bound to {source}, and {missing} does not exist");
    Some(Fault {
        object: destination.clone(),
        message,
        help: "run `overdue apply`, which declares it".to_owned(),
    })
}

/// Two queues that the same message goes to: the order would be treated twice. A fanout is meant to do that.
pub(super) fn overlaps(objects: &Objects) -> Vec<Fault> {
    let ours =
        |binding: &&Binding| binding.to_queue && objects.queues.contains_key(&binding.destination);
    let bindings: Vec<&Binding> = objects.bindings.iter().filter(ours).collect();
    let mut faults = Vec::new();
    for (at, one) in bindings.iter().enumerate() {
        let Some(exchange) = objects.exchanges.get(&one.source) else { continue };
        if one.source.is_empty() || !matches!(exchange.kind.as_str(), "topic" | "direct") {
            continue;
        }
        let others = bindings
            .iter()
            .skip(at + 1)
            .filter(|other| other.source == one.source && other.destination != one.destination);
        for other in others.filter(|other| passes(exchange, &one.routing_key, &other.routing_key)) {
            let message = format!(
                "exchange {} sends some messages twice: {} ({}) and {} ({}) have routing keys in common",
                one.source, one.destination, one.routing_key, other.destination, other.routing_key
            );
            let help = format!(
                "take one of the bindings away, or narrow it: {} or {}",
                one.routing_key, other.routing_key
            );
            faults.push(Fault { object: one.source.clone(), message, help });
        }
    }
    faults
}
