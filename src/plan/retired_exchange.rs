//! Taking exchanges out of use that delayed messages with another strategy: deleted when nothing can be on its way to
//! them or in them any more. And those of shards, which nothing is ever in: deleted when other queues get what is due.

use super::{
    Change, Contents, Needed, Plan, Reason, RetiredExchange,
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

/// Exchanges with our mark that the topology does not want.
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

/// Deletes what nothing leads to any more, first the exchanges that lead to others.
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

/// Deletes those of `left` that nothing leads to any more once `gone` and the queues that are planned are, and says what the
/// others are needed for.
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

/// Why an exchange cannot go yet, with the changes that are planned already.
pub(super) fn needed(
    (topology, observed): (&Topology, &Snapshot),
    plan: &Plan,
    exchange: &Exchange,
    gone: &[&str],
) -> Option<Needed> {
    let name = exchange.name.as_str();
    if is_of_former_shards(topology, exchange) {
        return shares(topology, observed, plan, exchange);
    }
    if exchange.kind == DELAYED_EXCHANGE_TYPE {
        let messages = observed.delayed.get(name).copied();
        if messages != Some(0) {
            return Some(Needed::Holds { messages, virtual_host: observed.virtual_host.clone() });
        }
    }
    let deleted = |queue: &str| plan.changes().any(|change| deletes(change, queue));
    let mut queues = observed.objects.queues.values();
    let leads = |it: &Queue| {
        it.dead_letter_exchange() == Some(name) || is_left_of_compat(topology, &it.name, name)
    };
    let feeds = queues.find(|it| leads(it) && !deleted(it.name.as_str()));
    if let Some(queue) = feeds {
        return Some(Needed::DeadLetters { queue: queue.name.clone() });
    }
    let mut exchanges = observed.objects.exchanges.values();
    let before =
        exchanges.find(|it| it.alternate() == Some(name) && !gone.contains(&it.name.as_str()));
    if let Some(before) = before {
        return Some(Needed::Bound { exchange: before.name.clone() });
    }
    let mut bindings = observed.objects.bindings.iter();
    let bound = bindings.find(|it| {
        !it.to_queue
            && it.destination == name
            && it.mark_of().is_none()
            && !gone.contains(&it.source.as_str())
    })?;
    Some(Needed::Bound { exchange: bound.source.clone() })
}

/// Whether workers with a file from before, which has `[compat.x-delay]`, publish to `exchange` what they consume from `queue`.
fn is_left_of_compat(topology: &Topology, queue: &str, exchange: &str) -> bool {
    let base = topology.compat_queue();
    (exchange == topology.compat_due_exchange() || exchange == topology.compat_rest_exchange())
        && number_of(&base, queue).is_some()
        && !topology.all_business_queues().any(|it| it == base)
}

/// Whether it was in front of shards that the topology does not have.
fn is_of_former_shards(topology: &Topology, exchange: &Exchange) -> bool {
    exchange.kind == CONSISTENT_HASH && !topology.objects().exchanges.contains_key(&exchange.name)
}

/// A former exchange of shards stays as long as one of them: by it workers that cannot list the queues know of them.
fn shares(
    topology: &Topology,
    observed: &Snapshot,
    plan: &Plan,
    exchange: &Exchange,
) -> Option<Needed> {
    let (name, due) = (exchange.name.as_str(), topology.due_exchange());
    let others = |it: &&Binding| {
        !it.to_queue && it.destination == name && it.source != due && it.mark_of().is_none()
    };
    if let Some(bound) = observed.objects.bindings.iter().find(others) {
        return Some(Needed::Bound { exchange: bound.source.clone() });
    }
    let base = shard::of_exchange(name)?;
    let deleted = |queue: &str| plan.changes().any(|change| deletes(change, queue));
    let mut queues = observed.objects.queues.keys();
    let left = queues.find(|queue| is_shard_of(base, queue) && !deleted(queue))?;
    Some(Needed::Shares { queue: left.clone() })
}

/// What leads to shards that one queue takes the place of: it is taken away before the bindings of the shards, so that none of
/// them gets what another one would have got. Where the timeout is gone, they stay bound until what waits for them in the levels
/// has come out, and so does the exchange.
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

/// Whether an exchange is needed on a broker as it is now; one that is not there is not.
pub fn is_needed(topology: &Topology, observed: &Snapshot, exchange: &str) -> bool {
    let exchange = observed.objects.exchanges.get(exchange);
    let nothing = Plan::default();
    exchange.is_some_and(|it| needed((topology, observed), &nothing, it, &[]).is_some())
}

fn deletes(change: &Change, name: &str) -> bool {
    matches!(change, Change::DeleteQueue { queue, .. } if queue == name)
}
