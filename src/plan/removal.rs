//! Removes a topology: every object with its mark, if no message waits in it and no client uses it.

use super::{
    Change, Plan, Reason, Refusal, Step,
    diff::unmarked,
    own_queues::named,
    retired_exchange::{delete, needed},
    snapshot::Snapshot,
    step::Difference,
};
use crate::{
    objects::{Binding, Exchange, Objects, Queue},
    topology::Topology,
};

/// The plan that deletes every object of `topology`. With `discard`, it also deletes queues with messages, but no queue whose
/// messages are not counted.
///
/// Exchanges that nothing routes to are deleted first, so that publishers get an error. Then queues are unbound, then deleted,
/// then the exchanges that they routed to. The exchange of the marks is deleted last: after a stop at any step, the removal can
/// be planned again.
pub fn removal(topology: &Topology, observed: &Snapshot, discard: bool) -> Plan {
    let objects = &observed.objects;
    let mut plan = Plan::default();
    let exchanges = exchanges(topology, objects);
    let (marks, others): (Vec<&Exchange>, Vec<&Exchange>) =
        exchanges.iter().partition(|exchange| exchange.name == topology.mark_exchange());
    let is_first =
        |exchange: &&Exchange| needed((topology, observed), &plan, exchange, &[]).is_none();
    let (first, later): (Vec<&Exchange>, Vec<&Exchange>) =
        others.iter().partition(|exchange| is_first(exchange));
    let first: Vec<&str> = first.iter().map(|exchange| exchange.name.as_str()).collect();
    for name in &first {
        let change = Change::DeleteExchange { exchange: (*name).to_owned() };
        plan.step(change, Reason::TopologyRemoved);
    }
    let is_ours = |name: &str| exchanges.iter().any(|exchange| exchange.name == name);
    let mut deletions = Vec::new();
    for queue in queues(topology, objects) {
        let (name, messages) = (&queue.name, observed.messages_in(&queue.name));
        if messages != Some(0) && (messages.is_none() || !discard) {
            plan.refusals.push(Refusal::Waiting { queue: name.clone(), messages });
        }
        if observed.consumed.contains(name) {
            plan.refusals.push(Refusal::Consumed { queue: name.clone() });
        }
        for binding in bindings(objects, name).filter(|it| !first.contains(&it.source.as_str())) {
            if is_ours(&binding.source) {
                plan.step(Change::Unbind(binding.clone()), Reason::TopologyRemoved);
            } else {
                let (queue, exchange) = (name.clone(), binding.source.clone());
                plan.refusals.push(Refusal::Fed { queue, exchange });
            }
        }
        let change =
            Change::DeleteQueue { queue: name.clone(), lost: messages.unwrap_or_default() };
        deletions.push(Step { change, reason: Reason::TopologyRemoved });
    }
    plan.steps.extend(deletions);
    delete((topology, observed), later, first, &Reason::TopologyRemoved, &mut plan);
    let gone = others.iter().map(|exchange| exchange.name.as_str()).collect();
    delete((topology, observed), marks, gone, &Reason::TopologyRemoved, &mut plan);
    let needed = std::mem::take(&mut plan.retired_exchanges).into_iter().map(Refusal::BlockedBy);
    plan.refusals.extend(needed);
    let similar = objects.queues.values().filter(|queue| named(topology, queue).is_some());
    plan.notes.extend(similar.filter_map(|queue| unmarked(topology, objects, queue)));
    plan
}

/// The queues with the mark of this topology, and of no other.
pub(crate) fn queues<'a>(
    topology: &'a Topology,
    objects: &'a Objects,
) -> impl Iterator<Item = &'a Queue> {
    objects.queues.values().filter(|queue| is_only_ours(topology, objects, &queue.name, true))
}

/// The exchanges with the mark of this topology, and unmarked exchanges of its file: if the broker has the exchange of the
/// marks, an exchange exactly as in the file was created with it.
fn exchanges<'a>(topology: &Topology, objects: &'a Objects) -> Vec<&'a Exchange> {
    let desired = topology.objects().exchanges;
    let as_wanted = |exchange: &Exchange| {
        let wanted = desired.get(&exchange.name);
        wanted.is_some_and(|it| Difference::of_exchanges(it, exchange).is_empty())
    };
    let is_marked = objects.exchanges.get(&topology.mark_exchange()).is_some_and(as_wanted);
    let ours = objects.exchanges.values().filter(|exchange| {
        is_only_ours(topology, objects, &exchange.name, false)
            || is_marked
                && objects.owner_of_exchange(&exchange.name).is_none()
                && as_wanted(exchange)
    });
    ours.collect()
}

fn is_only_ours(topology: &Topology, objects: &Objects, name: &str, to_queue: bool) -> bool {
    let marks =
        objects.bindings.iter().filter(|it| it.to_queue == to_queue && it.destination == name);
    let mut owners = marks.filter_map(Binding::mark_of).peekable();
    owners.peek().is_some() && owners.all(|owner| owner == topology.name)
}

/// The bindings of a queue, without the default exchange's and the marks.
fn bindings<'a>(objects: &'a Objects, queue: &'a str) -> impl Iterator<Item = &'a Binding> {
    objects.bindings.iter().filter(move |it| {
        it.to_queue && it.destination == queue && !it.source.is_empty() && it.mark_of().is_none()
    })
}
