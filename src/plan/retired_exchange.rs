//! Taking exchanges out of use that delayed messages with another strategy: deleted when nothing can be on its way to
//! them or in them any more.

use super::{
    Change, Needed, Plan, Reason, RetiredExchange, generation::Resolved, snapshot::Snapshot,
};
use crate::{
    objects::{Exchange, Objects},
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
    let left = retired(topology, &observed.objects, resolved).collect();
    delete(observed, left, Vec::new(), &Reason::StrategyChanged, plan);
}

/// Deletes those of `left` that nothing leads to any more once `gone` and the queues that are planned are, and says what the
/// others are needed for.
pub(super) fn delete<'a>(
    observed: &'a Snapshot,
    mut left: Vec<&'a Exchange>,
    mut gone: Vec<&'a str>,
    reason: &Reason,
    plan: &mut Plan,
) {
    loop {
        let needed = |exchange: &Exchange| needed(observed, plan, exchange, &gone);
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
            plan.step(change, reason.clone());
        }
        gone.extend(go.iter().map(|exchange| exchange.name.as_str()));
        left = stay;
    }
}

/// Why an exchange cannot go yet, with the changes that are planned already.
pub(super) fn needed(
    observed: &Snapshot,
    plan: &Plan,
    exchange: &Exchange,
    gone: &[&str],
) -> Option<Needed> {
    let name = exchange.name.as_str();
    if exchange.kind == DELAYED_EXCHANGE_TYPE {
        let messages = observed.delayed.get(name).copied();
        if messages != Some(0) {
            return Some(Needed::Holds { messages, virtual_host: observed.virtual_host.clone() });
        }
    }
    let deleted = |queue: &str| plan.changes().any(|change| deletes(change, queue));
    let mut queues = observed.objects.queues.values();
    let feeds =
        queues.find(|it| it.dead_letter_exchange() == Some(name) && !deleted(it.name.as_str()));
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

/// Whether an exchange is needed on a broker as it is now; one that is not there is not.
#[must_use]
pub fn is_needed(observed: &Snapshot, exchange: &str) -> bool {
    let exchange = observed.objects.exchanges.get(exchange);
    exchange.is_some_and(|it| needed(observed, &Plan::default(), it, &[]).is_some())
}

fn deletes(change: &Change, name: &str) -> bool {
    matches!(change, Change::DeleteQueue { queue, .. } if queue == name)
}
