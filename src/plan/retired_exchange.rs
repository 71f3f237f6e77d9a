//! Retires exchanges of a former strategy, which are deleted when no message can be in them or reach them. Also retires
//! exchanges of former shards, which never contain messages: they are deleted when other queues get the due messages.

use super::{
    BlockedBy, Change, Contents, Plan, Reason, RetiredExchange,
    generation::{Resolved, is_shard_of, number_of},
    snapshot::Snapshot,
};
use crate::{
    objects::{
        Binding, Exchange, Objects, Queue,
        shard::{self, CONSISTENT_HASH},
    },
    topology::{Topology, strategy::DELAYED_EXCHANGE_TYPE},
};

/// Exchanges with the mark of this topology that its file does not want.
pub(super) fn retired<'a>(
    topology: &'a Topology,
    objects: &'a Objects,
    resolved: &'a Resolved,
) -> impl Iterator<Item = &'a Exchange> {
    objects.exchanges.values().filter(move |exchange| {
        let ours = objects.owner_of_exchange(&exchange.name) == Some(&topology.name);
        ours && !resolved.objects.exchanges.contains_key(&exchange.name)
    })
}

/// Plans to delete retired exchanges that nothing routes to, each before the exchanges that it routes to.
pub(super) fn retire(
    topology: &Topology,
    observed: &Snapshot,
    resolved: &Resolved,
    plan: &mut Plan,
) {
    unbind_former_shards(topology, observed, plan);
    let left = retired(topology, &observed.objects, resolved).collect();
    delete((topology, observed), left, Vec::new(), &Reason::StrategyChanged, plan);
}

/// Plans to delete each exchange of `left` that nothing routes to after `gone` and the queues of the plan are deleted. Records
/// why the other exchanges are needed.
pub(super) fn delete<'a>(
    (topology, observed): (&Topology, &'a Snapshot),
    mut left: Vec<&'a Exchange>,
    mut gone: Vec<&'a str>,
    reason: &Reason,
    plan: &mut Plan,
) {
    loop {
        let needed = |exchange: &Exchange| needed((topology, observed), plan, exchange, &gone);
        let (stay, go): (Vec<&Exchange>, Vec<&Exchange>) =
            left.iter().copied().partition(|exchange| needed(exchange).is_some());
        if go.is_empty() {
            let retired = stay.into_iter().filter_map(|exchange| {
                Some(RetiredExchange { exchange: exchange.name.clone(), needed: needed(exchange)? })
            });
            let retired: Vec<RetiredExchange> = retired.collect();
            plan.retired_exchanges.extend(retired);
            return;
        }
        for exchange in &go {
            let change = Change::DeleteExchange { exchange: exchange.name.clone() };
            plan.step(change, reason_of(topology, exchange, reason));
        }
        gone.extend(go.iter().map(|exchange| exchange.name.as_str()));
        left = stay;
    }
}

/// Why an exchange cannot be deleted yet, after the changes that are already planned.
pub(super) fn needed(
    (topology, observed): (&Topology, &Snapshot),
    plan: &Plan,
    exchange: &Exchange,
    gone: &[&str],
) -> Option<BlockedBy> {
    let name = exchange.name.as_str();
    if is_of_former_shards(topology, exchange) {
        return shares(topology, observed, plan, exchange);
    }
    if exchange.kind == DELAYED_EXCHANGE_TYPE {
        let messages = observed.delayed.get(name).copied();
        if messages != Some(0) {
            return Some(BlockedBy::Holds {
                messages,
                virtual_host: observed.virtual_host.clone(),
            });
        }
    }
    let deleted = |queue: &str| plan.changes().any(|change| deletes(change, queue));
    let mut queues = observed.objects.queues.values();
    let leads = |it: &Queue| {
        it.dead_letter_exchange() == Some(name) || is_left_of_compat(topology, &it.name, name)
    };
    let feeds = queues.find(|it| leads(it) && !deleted(it.name.as_str()));
    if let Some(queue) = feeds {
        return Some(BlockedBy::DeadLetters { queue: queue.name.clone() });
    }
    let mut exchanges = observed.objects.exchanges.values();
    let before =
        exchanges.find(|it| it.alternate() == Some(name) && !gone.contains(&it.name.as_str()));
    if let Some(before) = before {
        return Some(BlockedBy::Bound { exchange: before.name.clone() });
    }
    let mut bindings = observed.objects.bindings.iter();
    let bound = bindings.find(|it| {
        !it.to_queue
            && it.destination == name
            && it.mark_of().is_none()
            && !gone.contains(&it.source.as_str())
    })?;
    Some(BlockedBy::Bound { exchange: bound.source.clone() })
}

/// Whether workers with an earlier topology file that has `[compat.x-delay]` publish messages from `queue` to `exchange`.
fn is_left_of_compat(topology: &Topology, queue: &str, exchange: &str) -> bool {
    let base = topology.compat_queue();
    (exchange == topology.compat_due_exchange() || exchange == topology.compat_rest_exchange())
        && number_of(&base, queue).is_some()
        && !topology.all_business_queues().any(|it| it == base)
}

/// Whether the exchange was in front of shards that the topology no longer has.
fn is_of_former_shards(topology: &Topology, exchange: &Exchange) -> bool {
    exchange.kind == CONSISTENT_HASH && !topology.objects().exchanges.contains_key(&exchange.name)
}

/// Why an exchange of former shards is needed: one of its shards exists. Workers that cannot list queues find the shards through
/// the exchange.
fn shares(
    topology: &Topology,
    observed: &Snapshot,
    plan: &Plan,
    exchange: &Exchange,
) -> Option<BlockedBy> {
    let (name, due) = (exchange.name.as_str(), topology.due_exchange());
    let others = |it: &&Binding| {
        !it.to_queue && it.destination == name && it.source != due && it.mark_of().is_none()
    };
    if let Some(bound) = observed.objects.bindings.iter().find(others) {
        return Some(BlockedBy::Bound { exchange: bound.source.clone() });
    }
    let base = shard::of_exchange(name)?;
    let deleted = |queue: &str| plan.changes().any(|change| deletes(change, queue));
    let mut queues = observed.objects.queues.keys();
    let left = queues.find(|queue| is_shard_of(base, queue) && !deleted(queue))?;
    Some(BlockedBy::Shares { queue: left.clone() })
}

/// Plans to unbind the exchanges of former shards that one queue replaces. They are unbound before their shards, so that no
/// shard gets messages of another shard. If the timeout was removed, the exchange and its shards stay bound until the
/// messages in the levels have arrived.
fn unbind_former_shards(topology: &Topology, observed: &Snapshot, plan: &mut Plan) {
    let (due, objects) = (topology.due_exchange(), &observed.objects);
    let is_former = |name: &str| {
        let exchange = objects.exchanges.get(name);
        exchange.is_some_and(|it| is_of_former_shards(topology, it))
            && objects.owner_of_exchange(name) == Some(&topology.name)
    };
    let bindings = objects.bindings.iter().filter(|it| !it.to_queue && it.source == due);
    for binding in bindings.filter(|it| is_former(&it.destination)) {
        if let Some(timeout) = topology.sharded_by(&binding.destination) {
            let successor = topology.business_queue(timeout);
            let reason = Reason::Succeeded { successor, contents: Contents::Empty };
            plan.step(Change::Unbind(binding.clone()), reason);
        }
    }
}

fn reason_of(topology: &Topology, exchange: &Exchange, reason: &Reason) -> Reason {
    let is_former = *reason == Reason::StrategyChanged && is_of_former_shards(topology, exchange);
    if is_former { Reason::RetiredAndEmpty } else { reason.clone() }
}

/// Whether an exchange is needed on the broker as observed; false if the exchange does not exist.
pub fn is_needed(topology: &Topology, observed: &Snapshot, exchange: &str) -> bool {
    let exchange = observed.objects.exchanges.get(exchange);
    let nothing = Plan::default();
    exchange.is_some_and(|it| needed((topology, observed), &nothing, it, &[]).is_some())
}

fn deletes(change: &Change, name: &str) -> bool {
    matches!(change, Change::DeleteQueue { queue, .. } if queue == name)
}
