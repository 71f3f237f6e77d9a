//! `alternate-exchange`: what has no route must have a place to go.

use std::collections::BTreeMap;

use super::{Fault, reached};
use crate::objects::{Exchange, Objects, Queue};

/// Exchanges that queues dead-letter to, and those that lead into a queue with a TTL, unless they are fanouts
/// with a queue, to which everything has a route.
pub(super) fn missing(objects: &Objects) -> Vec<Fault> {
    let mut needed: BTreeMap<&str, &str> = BTreeMap::new();
    for binding in objects.bindings.iter().filter(|binding| binding.to_queue) {
        if objects.queues.get(&binding.destination).is_some_and(Queue::expires) {
            needed.insert(&binding.source, UNROUTED_DELAY);
        }
    }
    for exchange in objects.queues.values().filter_map(|queue| queue.dead_letter_exchange()) {
        needed.insert(exchange, UNROUTED_DUE);
    }
    let exchanges =
        needed.into_iter().filter_map(|(name, why)| Some((objects.exchanges.get(name)?, why)));
    exchanges.filter_map(|(exchange, why)| fault(objects, exchange, why)).collect()
}

const UNROUTED_DUE: &str = "what comes out of a queue without a route stays in one of its 32 places for messages \
                            on their way, and 32 of them stop it for good";
const UNROUTED_DELAY: &str = "a notice with a routing key that leads nowhere is returned, or lost where its publisher \
                              does not ask for that";

fn fault(objects: &Objects, exchange: &Exchange, why: &str) -> Option<Fault> {
    let routes_all = |exchange: &Exchange| {
        exchange.kind == "fanout" && !reached(objects, &exchange.name, &["#"]).is_empty()
    };
    if routes_all(exchange) || exchange.name.is_empty() {
        return None;
    }
    let name = &exchange.name;
    let (what, help) = match exchange.alternate() {
        None => (
            format!("exchange {name} has no alternate exchange"),
            format!(
                "the arguments of an exchange cannot be changed: stop the publishers, delete {name}, and run `overdue apply`"
            ),
        ),
        Some(alternate) => match objects.exchanges.get(alternate) {
            None => (
                format!("the alternate exchange of {name}, {alternate}, does not exist"),
                "run `overdue apply`, which declares it".to_owned(),
            ),
            Some(found) if !routes_all(found) => (
                format!(
                    "the alternate exchange of {name}, {alternate}, does not route everything to a queue"
                ),
                format!(
                    "make {alternate} a fanout exchange that is bound to a queue: run `overdue plan`"
                ),
            ),
            Some(_) => return None,
        },
    };
    Some(Fault { object: name.clone(), message: format!("{what}: {why}"), help })
}
