//! The planner: a pure function from desired and observed objects to a plan.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Change, Difference, Note, Plan, Reason, Refusal,
    generation::{Resolved, resolve},
    own_queues::{is_marked, named},
    retired_exchange,
    retired_queue::RetiredQueue,
    snapshot::Snapshot,
    step_order::Order,
};
use crate::{
    objects::{Binding, DELAYED_MESSAGE, Objects, Queue, mark::mark},
    topology::Topology,
};

/// The plan that brings `observed` to `topology`. Foreign objects are not touched.
///
/// `discard` names business queues that may be deleted with their messages.
///
/// The order makes a plan safe. An object is created only after everything that it routes to. An old queue is unbound only
/// after the new queue is bound, and deleted only when no message can arrive and none waits. A plan that stops after any step
/// therefore leaves a topology that works.
pub fn diff(topology: &Topology, observed: &Snapshot, discard: &BTreeSet<String>) -> Plan {
    let resolved = resolve(topology, &observed.objects);
    let mut plan = Plan::default();
    additions(observed, &resolved, &mut plan);
    for queue in observed.objects.queues.values() {
        let wanted = resolved.objects.queues.contains_key(&queue.name);
        let kind = named(topology, queue).filter(|_| !wanted);
        let marked = kind.filter(|_| is_marked(topology, &observed.objects, queue));
        if kind.is_some() && marked.is_none() {
            plan.notes.extend(unmarked(topology, &observed.objects, queue));
        }
        let retired = marked.map(|kind| RetiredQueue {
            topology,
            observed,
            resolved: &resolved,
            discard,
            queue,
            kind,
        });
        if discard.contains(&queue.name) && !retired.as_ref().is_some_and(RetiredQueue::removed) {
            plan.refusals.push(Refusal::Kept { queue: queue.name.clone() });
        }
        if let Some(retired) = retired {
            retired.plan(&mut plan);
        }
    }
    retired_exchange::retire(topology, observed, &resolved, &mut plan);
    plan.notes.extend(unused(topology, observed));
    // The sort is stable: steps of one stage and TTL keep the order of the maps, so the same input gives the same plan.
    let order = Order::of(topology, &resolved, observed);
    plan.steps.sort_by_key(|step| order.place(&step.change));
    plan.draining.sort_by_key(|draining| order.ttl_ms(&draining.queue));
    plan
}

fn additions(observed: &Snapshot, resolved: &Resolved, plan: &mut Plan) {
    for exchange in resolved.objects.exchanges.values() {
        match observed.objects.exchanges.get(&exchange.name) {
            None => plan.step(Change::CreateExchange(exchange.clone()), Reason::Missing),
            Some(found) => {
                let differences = Difference::of_exchanges(exchange, found);
                if !differences.is_empty() {
                    let may_hold = found.kind == DELAYED_MESSAGE;
                    let exchange = exchange.name.clone();
                    plan.refusals.push(Refusal::Exchange { exchange, differences, may_hold });
                }
            }
        }
    }
    for queue in resolved.objects.queues.values() {
        if !observed.objects.queues.contains_key(&queue.name) {
            let replaced = resolved.replaces.get(&queue.name).cloned();
            let reason = replaced.map_or(Reason::Missing, Reason::Replaces);
            plan.step(Change::CreateQueue(queue.clone()), reason);
        }
    }
    for binding in &observed.objects.bindings {
        let wanted = resolved.objects.queues.contains_key(&binding.destination);
        if wanted && binding.leaves().is_some() {
            plan.step(Change::Unbind(binding.clone()), Reason::WantedAgain);
        }
    }
    for binding in resolved.objects.bindings.difference(&observed.objects.bindings) {
        match binding.mark_of() {
            None => plan.step(Change::Bind(binding.clone()), Reason::Missing),
            // A step that creates an object also marks it.
            Some(_) if is_there(&observed.objects, binding) => {
                plan.step(Change::Bind(binding.clone()), Reason::Adopted);
            }
            Some(_) => {}
        }
    }
}

fn is_there(objects: &Objects, binding: &Binding) -> bool {
    if binding.to_queue {
        objects.queues.contains_key(&binding.destination)
    } else {
        objects.exchanges.contains_key(&binding.destination)
    }
}
/// A note on a queue with a name of this topology and without a mark; `None` if another topology has marked the queue.
pub(super) fn unmarked(topology: &Topology, objects: &Objects, queue: &Queue) -> Option<Note> {
    if objects.owner_of(&queue.name).is_some() {
        return None;
    }
    let Binding { source, destination, routing_key, .. } = mark(&topology.name, &queue.name)?;
    Some(Note::Unmarked { queue: destination, exchange: source, mark: routing_key })
}

/// Notes on other topologies of this program in the same virtual host whose queues have no consumer.
fn unused(topology: &Topology, observed: &Snapshot) -> Vec<Note> {
    let mut others: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for binding in observed.objects.bindings.iter().filter(|binding| binding.to_queue) {
        if let Some(other) = binding.mark_of().filter(|other| *other != topology.name) {
            others.entry(other).or_default().insert(&binding.destination);
        }
    }
    others.retain(|_, queues| !queues.iter().any(|queue| observed.consumed.contains(*queue)));
    let note = |(other, queues): (&str, BTreeSet<&str>)| {
        let messages = queues.iter().filter_map(|queue| observed.messages_in(queue));
        Note::Unused {
            topology: other.to_owned(),
            messages: messages.sum(),
            queues: u64::try_from(queues.len()).unwrap_or(u64::MAX),
        }
    };
    others.into_iter().map(note).collect()
}
