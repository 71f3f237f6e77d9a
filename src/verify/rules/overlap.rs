//! `routing-overlap`: messages that several queues of the topology get.

use std::collections::{BTreeMap, BTreeSet};

use super::examined::Examined;
use crate::{
    diagnostic::{Draft, Fix, Subject},
    objects::routing::route,
    plan::own_queues::Kind,
};

pub(super) fn several_queues(examined: &Examined<'_>) -> Vec<Draft> {
    let topology = examined.topology;
    let entries = topology.entries().into_iter().map(|entry| entry.exchange);
    let exchanges: Vec<String> = entries.chain([topology.due_exchange()]).collect();
    exchanges.iter().filter_map(|exchange| of_exchange(examined, exchange)).collect()
}

/// One finding, with one routing key for each set of queues.
fn of_exchange(examined: &Examined<'_>, exchange: &str) -> Option<Draft> {
    let due = exchange == examined.topology.due_exchange();
    let counts = |queue: &String| match examined.role(queue) {
        // What is due and goes back into a level is a cycle, which has a rule of its own.
        Some(Kind::Delay(_)) => !due,
        role => role.is_some(),
    };
    let mut found: BTreeMap<BTreeSet<String>, String> = BTreeMap::new();
    for key in examined.keys(exchange) {
        let mut queues = route(examined.objects, exchange, &key).queues;
        queues.retain(counts);
        if queues.len() > 1 {
            found.entry(queues).or_insert(key);
        }
    }
    let mut cases = found.into_iter().map(|(queues, key)| {
        format!("{key} to {}", queues.into_iter().collect::<Vec<_>>().join(" and "))
    });
    let first = cases.next()?;
    let others: Vec<String> = cases.map(|case| format!("; {case}")).collect();
    Some(draft(examined, exchange, &format!("{first}{}", others.concat())))
}

fn draft(examined: &Examined<'_>, exchange: &str, cases: &str) -> Draft {
    let message = format!("it sends one message to several queues, by routing key: {cases}");
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
