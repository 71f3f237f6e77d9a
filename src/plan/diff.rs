//! The planner: a pure function from what is desired and what is there to a plan.

use std::collections::BTreeMap;

use super::{Change, Conflict, Difference, Plan};
use crate::topology::{
    Topology,
    objects::{Argument, Binding, Exchange, Objects, Queue},
};

/// The plan that brings `observed` to `topology`. Objects the topology does not name are not looked at.
///
/// The order is the safety argument: a thing is created only after everything it leads to, so whatever
/// is accepted after any number of steps has a way out. First the parking lot, then where due messages
/// come out, then the levels, and last the bindings that let messages in.
#[must_use]
pub fn diff(topology: &Topology, observed: &Objects) -> Plan {
    let desired = topology.objects();
    let order = Order::of(topology);
    let mut plan = Plan::default();
    let mut changes: Vec<((usize, u64), Change)> = Vec::new();
    for exchange in desired.exchanges.values() {
        match observed.exchanges.get(&exchange.name) {
            None => changes
                .push(((order.exchange(exchange), 0), Change::CreateExchange(exchange.clone()))),
            Some(found) => plan.conflicts.extend(exchange_conflict(exchange, found)),
        }
    }
    for queue in desired.queues.values() {
        match observed.queues.get(&queue.name) {
            None => changes.push((order.queue(queue), Change::CreateQueue(queue.clone()))),
            Some(found) => plan.conflicts.extend(queue_conflict(queue, found)),
        }
    }
    for binding in desired.bindings.difference(&observed.bindings) {
        changes.push((order.binding(binding), Change::Bind(binding.clone())));
    }
    // Stable: within a stage and a TTL the order is the one of the maps, so the same input gives the same plan.
    changes.sort_by_key(|(place, _)| *place);
    plan.changes = changes.into_iter().map(|(_, change)| change).collect();
    plan
}

/// Which stage of the construction an object belongs to; each stage leads only to earlier ones.
struct Order {
    park_exchange: String,
    parked_queue: String,
    entry_exchange: String,
    /// TTL of each delay queue, so that a plan lists the levels shortest first.
    ttl_ms: BTreeMap<String, u64>,
}

impl Order {
    fn of(topology: &Topology) -> Self {
        let levels = topology.levels.iter();
        Self {
            park_exchange: topology.park_exchange(),
            parked_queue: topology.parked_queue(),
            entry_exchange: topology.entry_exchange(),
            ttl_ms: levels
                .map(|level| (topology.delay_queue(level), level.ttl().as_millis()))
                .collect(),
        }
    }

    fn exchange(&self, exchange: &Exchange) -> usize {
        match &exchange.name {
            name if *name == self.park_exchange => 0,
            name if *name == self.entry_exchange => 7,
            _ => 3,
        }
    }

    fn queue(&self, queue: &Queue) -> (usize, u64) {
        match self.ttl_ms.get(&queue.name) {
            Some(ttl_ms) => (6, *ttl_ms),
            None if queue.name == self.parked_queue => (1, 0),
            None => (4, 0),
        }
    }

    fn binding(&self, binding: &Binding) -> (usize, u64) {
        match &binding.source {
            source if *source == self.park_exchange => (2, 0),
            source if *source == self.entry_exchange => {
                (8, self.ttl_ms.get(&binding.destination).copied().unwrap_or_default())
            }
            _ => (5, 0),
        }
    }
}

fn exchange_conflict(desired: &Exchange, observed: &Exchange) -> Option<Conflict> {
    let mut differences = Vec::new();
    text(&mut differences, "type", &desired.kind, &observed.kind);
    flag(&mut differences, "durable", desired.durable, observed.durable);
    flag(&mut differences, "auto-delete", desired.auto_delete, observed.auto_delete);
    compare(&mut differences, &desired.arguments, &observed.arguments);
    conflict("exchange", &desired.name, differences)
}

fn queue_conflict(desired: &Queue, observed: &Queue) -> Option<Conflict> {
    let mut differences = Vec::new();
    text(&mut differences, "type", &desired.kind, &observed.kind);
    flag(&mut differences, "durable", desired.durable, observed.durable);
    flag(&mut differences, "auto-delete", desired.auto_delete, observed.auto_delete);
    flag(&mut differences, "exclusive", desired.exclusive, observed.exclusive);
    compare(&mut differences, &desired.arguments, &observed.arguments);
    conflict("queue", &desired.name, differences)
}

fn conflict(object: &'static str, name: &str, differences: Vec<Difference>) -> Option<Conflict> {
    (!differences.is_empty()).then(|| Conflict { object, name: name.to_owned(), differences })
}

fn text(differences: &mut Vec<Difference>, property: &str, desired: &str, observed: &str) {
    differ(differences, property, Some(&desired.into()), Some(&observed.into()));
}

fn flag(differences: &mut Vec<Difference>, property: &str, desired: bool, observed: bool) {
    differ(differences, property, Some(&Argument::Flag(desired)), Some(&Argument::Flag(observed)));
}

fn compare(
    differences: &mut Vec<Difference>,
    desired: &BTreeMap<String, Argument>,
    observed: &BTreeMap<String, Argument>,
) {
    let observed_only = observed.keys().filter(|key| !desired.contains_key(*key));
    for key in desired.keys().chain(observed_only) {
        differ(differences, key, desired.get(key), observed.get(key));
    }
}

fn differ(
    differences: &mut Vec<Difference>,
    property: &str,
    desired: Option<&Argument>,
    observed: Option<&Argument>,
) {
    if desired != observed {
        let property = property.to_owned();
        differences.push(Difference {
            property,
            desired: desired.cloned(),
            observed: observed.cloned(),
        });
    }
}
