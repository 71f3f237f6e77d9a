//! The promise of `Plan::changes`: stopping after any of them opens no window to lose a message in.

use overdue::{
    plan::{Plan, diff::diff},
    topology::{Topology, objects::Objects},
};
use proptest::prelude::*;

use crate::{
    broker_model::{apply, dead_letter_exchange, route, text},
    generate,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_prefix_of_a_first_plan_loses_a_message(topology in generate::topology()) {
        let plan = diff(&topology, &Objects::default());
        at_each_prefix(&Objects::default(), &plan, |broker| nothing_is_lost(broker, &topology))?;
    }

    #[test]
    fn no_prefix_of_a_growing_topology_loses_a_message(written in generate::written()) {
        let (earlier, later) = (written.earlier().read(), written.read());
        let broker = earlier.objects();
        let plan = diff(&later, &broker);
        at_each_prefix(&broker, &plan, |broker| nothing_is_lost(broker, &later))?;
    }

    /// Not lost is not enough: what a level accepts has to come out in its business queue, so the
    /// levels are opened last.
    #[test]
    fn what_a_level_accepts_comes_out_in_its_timeout(topology in generate::topology()) {
        let plan = diff(&topology, &Objects::default());
        at_each_prefix(&Objects::default(), &plan, |broker| accepted_comes_out(broker, &topology))?;
    }
}

/// Runs `check` on the broker before the plan, after each change, and after the last.
fn at_each_prefix(
    before: &Objects,
    plan: &Plan,
    check: impl Fn(&Objects) -> Result<(), String>,
) -> Result<(), TestCaseError> {
    let mut broker = before.clone();
    let mut last = "the beginning".to_owned();
    for change in plan.changes.iter().map(Some).chain([None]) {
        check(&broker)
            .map_err(|lost| TestCaseError::fail(format!("stopped after {last}: {lost}\n{plan}")))?;
        if let Some(change) = change {
            apply(&mut broker, change);
            last = change.to_string();
        }
    }
    Ok(())
}

/// Every exchange that exists and takes our messages has a way out for any key, every queue that
/// exists and dead-letters does so to such an exchange.
fn nothing_is_lost(broker: &Objects, topology: &Topology) -> Result<(), String> {
    let into = [topology.entry_exchange(), topology.due_exchange(), topology.park_exchange()];
    for queue in broker.queues.keys() {
        if let Some(exchange) = dead_letter_exchange(broker, queue) {
            has_way_out(broker, topology, exchange)
                .map_err(|lost| format!("{queue} dead-letters to {exchange}: {lost}"))?;
        }
    }
    for exchange in into.iter().filter(|exchange| broker.exchanges.contains_key(*exchange)) {
        // The parking lot is built first, from the inside: nobody leads to it before the rest.
        if *exchange != topology.park_exchange() {
            has_way_out(broker, topology, exchange)?;
        }
    }
    Ok(())
}

fn has_way_out(broker: &Objects, topology: &Topology, exchange: &str) -> Result<(), String> {
    let declared = broker.exchanges.get(exchange).ok_or("it does not exist")?;
    let parked = Some([topology.parked_queue()].into());
    if exchange == topology.park_exchange() {
        return (route(broker, exchange, "any") == parked)
            .then_some(())
            .ok_or_else(|| "it does not lead to the parking lot".to_owned());
    }
    let alternate = text(declared.arguments.get("alternate-exchange"))
        .ok_or_else(|| format!("{exchange} has no alternate exchange"))?;
    if route(broker, alternate, "any") != parked {
        return Err(format!("{exchange}: {alternate} does not lead to the parking lot"));
    }
    for key in keys(topology) {
        let queues = route(broker, exchange, &key).unwrap_or_default();
        if queues.is_empty() || !queues.iter().all(|queue| broker.queues.contains_key(queue)) {
            return Err(format!("{exchange} sends key {key} to {queues:?}"));
        }
    }
    Ok(())
}

fn accepted_comes_out(broker: &Objects, topology: &Topology) -> Result<(), String> {
    for level in &topology.levels {
        for timeout in &topology.timeouts {
            let key = Topology::routing_key(level, timeout);
            let entered = route(broker, &topology.entry_exchange(), &key).unwrap_or_default();
            let delay = topology.delay_queue(level);
            if !entered.contains(&delay) {
                continue;
            }
            let due = dead_letter_exchange(broker, &delay).ok_or("the level has no DLX")?;
            let out = route(broker, due, &key);
            if out != Some([topology.business_queue(timeout)].into()) {
                return Err(format!("{key} waits in {delay} and comes out in {out:?}"));
            }
        }
    }
    Ok(())
}

/// Every key of the topology, and keys nobody knows.
fn keys(topology: &Topology) -> Vec<String> {
    let known = topology.levels.iter().flat_map(|level| {
        topology.timeouts.iter().map(move |timeout| Topology::routing_key(level, timeout))
    });
    let first = topology.levels[0].name();
    let unknown =
        [format!("{first}.nobody"), format!("{first}.a.b"), "nonsense".to_owned(), String::new()];
    known.chain(unknown).collect()
}

/// The checker itself: a plan in the wrong order is found out.
#[test]
fn a_plan_back_to_front_would_lose_messages() {
    let topology = Topology::parse(include_str!("../../topology.toml")).expect("a good file");
    let mut plan = diff(&topology, &Objects::default());
    let create = |change: &overdue::plan::Change| !matches!(change, overdue::plan::Change::Bind(_));
    plan.changes.sort_by_key(|change| (!create(change), std::cmp::Reverse(change.to_string())));
    let found = at_each_prefix(&Objects::default(), &plan, |o| nothing_is_lost(o, &topology));
    assert!(found.is_err(), "this order is safe after all:\n{plan}");
}
