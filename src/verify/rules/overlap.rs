//! `routing-overlap`: messages that several queues of the topology get.

use std::collections::{BTreeMap, BTreeSet};

use super::examined::Examined;
use crate::{
    diagnostic::{Draft, Fix, Subject},
    objects::routing::route,
};

pub(super) fn several_queues(examined: &Examined<'_>) -> Vec<Draft> {
    let topology = examined.topology;
    let exchanges = [topology.entry_exchange(), topology.due_exchange()];
    exchanges.iter().flat_map(|exchange| of_exchange(examined, exchange)).collect()
}

/// One finding for each set of queues, with one of the routing keys.
fn of_exchange(examined: &Examined<'_>, exchange: &str) -> Vec<Draft> {
    let mut found: BTreeMap<BTreeSet<String>, String> = BTreeMap::new();
    for key in examined.keys() {
        let mut queues = route(examined.objects, exchange, &key).queues;
        queues.retain(|queue| examined.role(queue).is_some());
        if queues.len() > 1 {
            found.entry(queues).or_insert(key);
        }
    }
    found.into_iter().map(|(queues, key)| draft(examined, exchange, &queues, &key)).collect()
}

fn draft(examined: &Examined<'_>, exchange: &str, queues: &BTreeSet<String>, key: &str) -> Draft {
    let queues = queues.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    let message =
        format!("one message with the routing key {key} goes to several queues: {queues}");
    let reason = if exchange == examined.topology.due_exchange() {
        "the worker of each queue treats the order"
    } else {
        "the order comes due more than once, or before its delay"
    };
    let mut bindings = examined.objects.bindings.iter();
    let through = bindings.find(|binding| binding.source == exchange && !binding.to_queue);
    let fix = through.map_or_else(
        || Fix::Text("delete or narrow the binding that is too many".to_owned()),
        |binding| Fix::Unbind(binding.clone()),
    );
    Draft::about(Subject::Exchange(exchange.to_owned()), message).because(reason).fix(fix)
}
