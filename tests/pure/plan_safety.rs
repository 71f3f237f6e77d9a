//! The promise of `Plan::steps`: a stop after any step must lose no message.

use std::collections::BTreeSet;

use overdue::internals::{
    objects::Objects,
    plan::{Change, Plan, Snapshot, is_of},
    topology::Topology,
};
use proptest::prelude::*;

use crate::{
    broker_model::{apply, dead_letter_exchange, plan, route, text},
    generate,
};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn no_prefix_of_a_first_plan_loses_a_message(topology in generate::topology_anyhow()) {
        let empty = Snapshot::default();
        let keys = keys(&topology);
        at_each_prefix(&empty, &plan(&topology, &empty), |broker| nothing_is_lost(broker, &topology, &keys))?;
    }

    /// Includes retirements: messages that are published meanwhile are routed, and waiting messages leave their queues.
    #[test]
    fn no_prefix_of_a_change_loses_a_message((before, after) in generate::change()) {
        let (before, after) = (before.read(), after.read());
        let broker = Snapshot::of(&before);
        let keys = [keys(&before), keys(&after)].concat();
        at_each_prefix(&broker, &plan(&after, &broker), |broker| {
            nothing_is_lost(broker, &after, &keys)?;
            kept_comes_out(broker, &before, &after)
        })?;
    }

    /// A message that is not lost must also arrive: a message in a level must reach its business queue, so the
    /// levels are opened last.
    #[test]
    fn what_a_level_accepts_comes_out_in_its_timeout(topology in generate::topology_anyhow()) {
        let empty = Snapshot::default();
        at_each_prefix(&empty, &plan(&topology, &empty), |broker| accepted_comes_out(broker, &topology))?;
    }

    /// At the end of a change every key of the new topology waits in its level once, and arrives in its queue.
    #[test]
    fn a_change_leads_every_key_to_one_level_and_one_queue((before, after) in generate::change()) {
        let (before, after) = (before.read(), after.read());
        let broker = Snapshot::of(&before);
        let mut changed = broker.clone();
        plan(&after, &broker).steps.iter().for_each(|step| apply(&mut changed, &step.change));
        for level in &after.levels {
            for timeout in &after.timeouts {
                let key = Topology::routing_key(level, timeout);
                let entered = route(&changed.objects, &after.entry_exchange(), &key).unwrap_or_default();
                prop_assert_eq!(entered.len(), 1, "{} enters {:?}", key, entered);
                prop_assert!(all_generations(&entered, &after.delay_queue(level)), "{} enters {:?}", key, entered);
                let due = route(&changed.objects, &after.due_exchange(), &key).unwrap_or_default();
                prop_assert_eq!(due.len(), after.business_queues(timeout).len(), "{} comes out in {:?}", key, due);
                prop_assert!(all_generations(&due, &after.business_queue(timeout)), "{} comes out in {:?}", key, due);
            }
        }
    }
}

/// Runs `check` on the broker before the plan, after each step, and after the last.
fn at_each_prefix(
    before: &Snapshot,
    plan: &Plan,
    check: impl Fn(&Objects) -> Result<(), String>,
) -> Result<(), TestCaseError> {
    let mut broker = before.clone();
    let mut last = "the beginning".to_owned();
    for step in plan.steps.iter().map(Some).chain([None]) {
        check(&broker.objects)
            .map_err(|lost| TestCaseError::fail(format!("stopped after {last}: {lost}\n{plan}")))?;
        if let Some(step) = step {
            apply(&mut broker, &step.change);
            last = step.change.to_string();
        }
    }
    Ok(())
}

/// Whether there are queues, and each is a generation of `base`, or one of its shards.
fn all_generations(queues: &BTreeSet<String>, base: &str) -> bool {
    !queues.is_empty() && queues.iter().all(|queue| is_of(base, queue))
}

/// Every exchange for our messages has a route for any key, and every queue with a dead-letter
/// exchange has an existing one.
fn nothing_is_lost(broker: &Objects, topology: &Topology, keys: &[String]) -> Result<(), String> {
    let into = [topology.entry_exchange(), topology.due_exchange(), topology.park_exchange()];
    let queues = broker.queues.keys();
    let dead_letter: BTreeSet<&str> =
        queues.filter_map(|queue| dead_letter_exchange(broker, queue)).collect();
    for exchange in dead_letter {
        has_way_out(broker, topology, exchange, keys)
            .map_err(|lost| format!("queues dead-letter to {exchange}: {lost}"))?;
    }
    for exchange in into.iter().filter(|exchange| broker.exchanges.contains_key(*exchange)) {
        // The parking lot is built first, from the inside: no other object routes to it yet.
        if *exchange != topology.park_exchange() {
            has_way_out(broker, topology, exchange, keys)?;
        }
    }
    Ok(())
}

fn has_way_out(
    broker: &Objects,
    topology: &Topology,
    exchange: &str,
    keys: &[String],
) -> Result<(), String> {
    let declared = broker.exchanges.get(exchange).ok_or("it does not exist")?;
    let parks = |exchange: &str| {
        let queues = route(broker, exchange, "any").unwrap_or_default();
        all_generations(&queues, &topology.parked_queue())
    };
    if exchange == topology.park_exchange() {
        return parks(exchange)
            .then_some(())
            .ok_or_else(|| "it does not lead to the parking lot".to_owned());
    }
    let alternate = text(declared.arguments.get("alternate-exchange"))
        .ok_or_else(|| format!("{exchange} has no alternate exchange"))?;
    if !parks(alternate) {
        return Err(format!("{exchange}: {alternate} does not lead to the parking lot"));
    }
    for key in keys {
        let queues = route(broker, exchange, key).unwrap_or_default();
        if queues.is_empty() || !queues.iter().all(|queue| broker.queues.contains_key(queue)) {
            return Err(format!("{exchange} sends key {key} to {queues:?}"));
        }
    }
    Ok(())
}

/// A timeout in both versions works all the time: its notices wait in their level and arrive in their queue.
fn kept_comes_out(broker: &Objects, before: &Topology, after: &Topology) -> Result<(), String> {
    let kept =
        |timeout: &&overdue::internals::topology::Timeout| after.timeout(&timeout.name).is_some();
    for timeout in before.timeouts.iter().filter(kept) {
        for level in &before.levels {
            let key = Topology::routing_key(level, timeout);
            let due = route(broker, &before.due_exchange(), &key).unwrap_or_default();
            if !all_generations(&due, &before.business_queue(timeout)) {
                return Err(format!("what waits with {key} comes out in {due:?}"));
            }
            let entered = route(broker, &before.entry_exchange(), &key).unwrap_or_default();
            let kept = after.level(level.name()).is_some();
            if kept && !all_generations(&entered, &before.delay_queue(level)) {
                return Err(format!("{key} enters {entered:?}"));
            }
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
            // The last of its shards is bound before the exchange in front of them.
            if out != Some(topology.business_queues(timeout).into_iter().collect()) {
                return Err(format!("{key} waits in {delay} and comes out in {out:?}"));
            }
        }
    }
    Ok(())
}

/// Every key of the topology, and unknown keys.
fn keys(topology: &Topology) -> Vec<String> {
    let known = topology.levels.iter().flat_map(|level| {
        topology.timeouts.iter().map(move |timeout| Topology::routing_key(level, timeout))
    });
    let first = topology.levels.first().map_or("30m", |level| level.name());
    let unknown =
        [format!("{first}.nobody"), format!("{first}.a.b"), "nonsense".to_owned(), String::new()];
    let strategy = topology.publications().map(|(_, key)| key);
    known.chain(strategy).chain(unknown).collect()
}

/// Tests the checker itself: it must detect a plan in the wrong order.
#[test]
fn a_plan_back_to_front_would_lose_messages() {
    let topology = Topology::parse(include_str!("../../topology.toml")).expect("a good file");
    let keys = keys(&topology);
    let mut wrong = plan(&topology, &Snapshot::default());
    wrong.steps.sort_by_key(|step| {
        (matches!(step.change, Change::Bind(_)), std::cmp::Reverse(step.change.to_string()))
    });
    let found = at_each_prefix(&Snapshot::default(), &wrong, |broker| {
        nothing_is_lost(broker, &topology, &keys)
    });
    assert!(found.is_err(), "this order is safe after all:\n{wrong}");
}
