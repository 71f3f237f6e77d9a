//! The planner as algebra: plans converge, are stable, and keep their hands off what is not theirs.

use std::collections::{BTreeMap, BTreeSet};

use overdue::internals::{
    objects::{Binding, Exchange, Objects, Queue},
    plan::{Change, DrainStatus, Plan, Refusal, Snapshot, Step, diff, number_of},
    topology::{self, Topology},
};
use proptest::{collection, prelude::*, sample::Index};

use crate::{
    broker_model::{applied, apply, empty_queues, much_later, plan},
    generate,
};

/// A line of a plan is a step, but for lines of a ladder, which say how many they are.
fn steps_in(line: &str) -> usize {
    let many = line.rsplit_once(" of them, ").and_then(|(line, _)| line.rsplit(' ').next());
    many.map_or(1, |many| many.parse().unwrap_or_default())
}

proptest! {
    #[test]
    fn a_broker_that_has_it_needs_nothing(topology in generate::topology_anyhow()) {
        let plan = plan(&topology, &Snapshot::of(&topology));
        prop_assert_eq!(&plan, &Plan::default());
        prop_assert_eq!(plan.to_string(), "no change: the broker has this topology");
    }

    #[test]
    fn an_empty_broker_gets_exactly_the_objects(topology in generate::topology_anyhow()) {
        let plan = plan(&topology, &Snapshot::default());
        prop_assert_eq!(&plan.refusals, &[]);
        prop_assert!(plan.steps.iter().all(Step::adds));
        prop_assert_eq!(applied(&Snapshot::default(), &plan), Snapshot::of(&topology));
    }

    /// Stopped anywhere and planned again, the rest of the work is the rest of the first plan.
    #[test]
    fn a_first_plan_that_was_stopped_goes_on_where_it_was(
        topology in generate::topology_anyhow(),
        stop in any::<Index>(),
    ) {
        let first = plan(&topology, &Snapshot::default());
        let (broker, stop) = stopped(&Snapshot::default(), &first, stop);
        let rest = plan(&topology, &broker);
        prop_assert_eq!(&rest.steps, &first.steps[stop..]);
        prop_assert_eq!(&rest.refusals, &[]);
        prop_assert_eq!(applied(&broker, &rest), Snapshot::of(&topology));
    }

    /// Places of a ladder go one after the other, and so do a timeout and an exchange of the plugin.
    #[test]
    fn any_change_adds_all_in_one_plan_and_comes_to_an_end((before, after) in generate::change()) {
        let (before, after) = (before.read(), after.read());
        let broker = Snapshot::of(&before);
        let change = plan(&after, &broker);
        prop_assert_eq!(&change.refusals, &[]);
        prop_assert_eq!(change.lost(), 0);
        settles(&applied(&broker, &change), &after)?;
    }

    #[test]
    fn any_change_that_was_stopped_converges(
        (before, after) in generate::change(),
        stop in any::<Index>(),
    ) {
        let (before, after) = (before.read(), after.read());
        let broker = Snapshot::of(&before);
        let (broker, _) = stopped(&broker, &plan(&after, &broker), stop);
        let rest = plan(&after, &broker);
        prop_assert_eq!(&rest.refusals, &[]);
        settles(&applied(&broker, &rest), &after)?;
    }

    /// There and back again: a generation that still drains is taken into use again.
    #[test]
    fn a_change_that_was_stopped_can_be_taken_back(
        (before, after) in generate::change(),
        stop in any::<Index>(),
    ) {
        let (before, after) = (before.read(), after.read());
        let broker = Snapshot::of(&before);
        let (broker, _) = stopped(&broker, &plan(&after, &broker), stop);
        settles(&applied(&broker, &plan(&before, &broker)), &before)?;
    }

    /// Whatever somebody deleted by hand is put back, and nothing else is touched.
    #[test]
    fn whatever_is_missing_is_created(
        topology in generate::topology_anyhow(),
        deleted in collection::vec(any::<Index>(), 1..6),
    ) {
        let desired = topology.objects();
        let broker = without(&desired, &deleted);
        let plan = plan(&topology, &empty_queues(broker.clone()));
        prop_assert_eq!(&plan.refusals, &[]);
        // The mark of a queue that is created is a part of that step.
        let missing = desired.bindings.difference(&broker.bindings);
        let within = missing.filter(|binding| {
            let to = &binding.destination;
            binding.mark_of().is_some() && !broker.queues.contains_key(to) && !broker.exchanges.contains_key(to)
        });
        let within = within.count();
        prop_assert_eq!(plan.steps.len(), count(&desired) - count(&broker) - within);
        prop_assert_eq!(applied(&empty_queues(broker), &plan).objects, desired);
    }

    /// Nothing that holds a message, or may hold one, is deleted; it is said to drain.
    #[test]
    fn no_queue_with_messages_is_deleted(
        (before, after) in generate::change(),
        counts in collection::vec(proptest::option::of(0_u64..3), 1..8),
    ) {
        let (before, after) = (before.read(), after.read());
        let mut broker = holding(&Snapshot::of(&before), &counts);
        let change = plan(&after, &broker);
        prop_assert_eq!(change.lost(), 0);
        for step in &change.steps {
            if let Change::DeleteQueue { queue, .. } = &step.change {
                prop_assert_eq!(broker.messages_in(queue), Some(0), "{}", change);
            }
        }
        for queue in broker.objects.queues.keys().filter(|queue| broker.messages_in(queue) != Some(0)) {
            let kept = desired_queue(&after, &broker.objects.queues[queue]);
            let draining = change.draining.iter().any(|draining| draining.queue == *queue);
            prop_assert!(kept != draining, "{}: kept {}, draining {}\n{}", queue, kept, draining, change);
        }
        broker = applied(&broker, &change);
        settles(&empty_queues(broker.objects), &after)?;
    }

    /// The named messages alone are lost, and the plan counts them. While the plugin may delay messages for a queue, it is refused.
    #[test]
    fn a_discarded_queue_is_deleted_with_its_messages(
        (before, after) in generate::change(),
        messages in 1_u64..1_000,
    ) {
        let (before, after) = (before.read(), after.read());
        let mut broker = Snapshot::of(&before);
        let removed: BTreeSet<String> = before.timeouts.iter()
            .filter(|timeout| after.timeout(&timeout.name).is_none())
            .flat_map(|timeout| before.business_queues(timeout))
            .collect();
        for queue in &removed {
            broker.messages.insert(queue.clone(), messages);
        }
        let change = diff(&after, &broker, &removed);
        let is_delayed = |it: &Refusal| matches!(it, Refusal::NotCounted { exchange: Some(_), .. });
        prop_assert!(change.refusals.iter().all(is_delayed), "{:?}", change.refusals);
        if !change.refusals.is_empty() {
            return Ok(());
        }
        prop_assert_eq!(change.lost(), messages * u64::try_from(removed.len()).expect("few"));
        settles(&applied(&broker, &change), &after)?;
    }

    #[test]
    fn what_belongs_to_others_changes_nothing(
        (before, after) in generate::change(),
        names in collection::vec(foreign_name(), 1..5),
        stop in any::<Index>(),
    ) {
        let (before, after) = (before.read(), after.read());
        let broker = Snapshot::of(&before);
        let (broker, _) = stopped(&broker, &plan(&after, &broker), stop);
        let shared = with_foreign(&broker, &after, &names);
        prop_assert_ne!(&broker, &shared);
        prop_assert_eq!(plan(&after, &broker), plan(&after, &shared));
    }

    /// `orders` and `orders.eu`, and what looks like a generation of each other.
    #[test]
    fn a_topology_whose_name_begins_with_ours_is_not_touched(
        (before, after) in generate::change(),
        theirs in generate::written_anyhow(),
        below in "delay|delay\\.30m|eu|parked|unpaid",
    ) {
        let (before, after, mut theirs) = (before.read(), after.read(), theirs.read());
        theirs.name = format!("{}.{below}", before.name);
        theirs.timeouts[0].name = "2".to_owned();
        let broker = Snapshot::of(&before);
        let mut shared = Snapshot::of(&theirs);
        prop_assume!(shared.objects.queues.keys().all(|queue| !broker.objects.queues.contains_key(queue)));
        shared.objects.exchanges.extend(broker.objects.exchanges.clone());
        shared.objects.queues.extend(broker.objects.queues.clone());
        shared.objects.bindings.extend(broker.objects.bindings.clone());
        shared.messages.extend(broker.messages.clone());
        shared.delayed.extend(broker.delayed.clone());
        let (changed, _) = at_rest(&shared, &after)?;
        for (name, queue) in theirs.objects().queues {
            prop_assert_eq!(changed.objects.queues.get(&name), Some(&queue));
        }
        prop_assert!(changed.objects.bindings.is_superset(&theirs.objects().bindings));
    }

    #[test]
    fn the_same_input_gives_the_same_bytes(
        (before, after) in generate::change(),
        deleted in collection::vec(any::<Index>(), 0..9),
    ) {
        let print = || {
            let broker = empty_queues(without(&before.read().objects(), &deleted));
            let plan = plan(&after.read(), &broker);
            (plan.to_string(), serde_json::to_string(&plan).expect("JSON"))
        };
        prop_assert_eq!(print(), print());
    }

    /// Whatever drains, and however far it is; and another file has another one.
    #[test]
    fn a_queue_that_drains_leaves_the_fingerprint_as_it_is(
        (before, after) in generate::change(),
        counts in collection::vec(0_u64..3, 1..8),
    ) {
        let (before, after) = (before.read(), after.read());
        let counts: Vec<Option<u64>> = counts.into_iter().map(Some).collect();
        let held = plan(&after, &holding(&Snapshot::of(&before), &counts));
        prop_assume!(!goes_in_two_plans(&before, &after));
        let drained = plan(&after, &Snapshot::of(&before));
        prop_assert_eq!(held.fingerprint(), drained.fingerprint(), "{}\n{}", held, drained);
        let back = plan(&before, &Snapshot::of(&after));
        prop_assert!(drained.steps.is_empty() || back.fingerprint() != drained.fingerprint());
    }

    #[test]
    fn every_step_is_shown_and_counted((before, after) in generate::change()) {
        let change = plan(&after.read(), &Snapshot::of(&before.read()));
        let text = change.to_string();
        let is_step = |line: &&str| {
            line.starts_with("  + ") || line.starts_with("  - ") || line.ends_with("  (leaves)")
        };
        let signs = text.lines().filter(is_step);
        prop_assert_eq!(signs.map(steps_in).sum::<usize>(), change.steps.len(), "{}", text);
        for step in &change.steps {
            let shown = step.change.to_string();
            prop_assert!(shown.contains(".ladder.") || text.contains(&shown), "{} is not in\n{}", shown, text);
        }
        let counted = change.summary();
        let steps = counted.split(';').next().unwrap_or_default();
        let numbers = steps.split([' ', ',']).filter_map(|word| word.parse::<usize>().ok());
        prop_assert_eq!(numbers.sum::<usize>(), change.steps.len(), "{}", counted);
    }
}

#[test]
fn an_empty_plan_is_no_change() {
    assert!(Plan::default().is_empty());
}

/// The broker after some steps of a plan, and how many.
fn stopped(before: &Snapshot, plan: &Plan, stop: Index) -> (Snapshot, usize) {
    let stop = stop.index(plan.steps.len() + 1);
    let mut broker = before.clone();
    plan.steps[..stop].iter().for_each(|step| apply(&mut broker, &step.change));
    (broker, stop)
}

/// The same broker with messages in its queues; `None` where it does not say how many.
fn holding(broker: &Snapshot, counts: &[Option<u64>]) -> Snapshot {
    let queues = broker.objects.queues.keys().zip(counts.iter().cycle());
    let messages = queues.filter_map(|(queue, count)| Some((queue.clone(), (*count)?)));
    Snapshot {
        objects: broker.objects.clone(),
        messages: messages.collect(),
        delayed: broker.delayed.clone(),
        ..Snapshot::default()
    }
}

/// Whether the topology has exactly this queue, under this name or as a generation of it.
fn desired_queue(topology: &Topology, queue: &Queue) -> bool {
    topology.objects().queues.into_iter().any(|(base, desired)| {
        number_of(&base, &queue.name).is_some()
            && Queue { name: queue.name.clone(), ..desired } == *queue
    })
}

/// Queues that an exchange of the plugin leads to are deleted when that is gone.
fn goes_in_two_plans(before: &Topology, after: &Topology) -> bool {
    let is_delayed = |it: &Topology| it.strategy == topology::strategy::Strategy::DelayedExchange;
    is_delayed(before) && !is_delayed(after)
}

/// The broker when nothing is left to do, plan after plan, if nothing waits and time passes; nothing more is added.
fn at_rest(broker: &Snapshot, topology: &Topology) -> Result<(Snapshot, Plan), TestCaseError> {
    let mut broker = broker.clone();
    for _ in 0..64 {
        broker = much_later(broker);
        let rest = plan(topology, &broker);
        if rest.steps.is_empty() {
            return Ok((broker, rest));
        }
        broker = applied(&broker, &rest);
    }
    Err(TestCaseError::fail(format!("no end: {}", plan(topology, &broker))))
}

/// Only what the topology has is left then, but for queues that an exchange of the plugin leads to, as long as that is there.
fn settles(broker: &Snapshot, topology: &Topology) -> Result<(), TestCaseError> {
    let (mut broker, rest) = at_rest(broker, topology)?;
    prop_assert!(rest.is_empty() && rest.notes.is_empty(), "{}", rest);
    for it in &rest.draining {
        prop_assert!(matches!(it.drains, DrainStatus::Fed { .. }), "{}", rest);
        apply(&mut broker, &Change::DeleteQueue { queue: it.queue.clone(), lost: 0 });
    }
    for it in rest.retired_exchanges {
        apply(&mut broker, &Change::DeleteExchange { exchange: it.exchange });
    }
    has_exactly(&broker, topology)
}

/// Each desired queue is there in one generation, bound as desired, and nothing else is.
fn has_exactly(broker: &Snapshot, topology: &Topology) -> Result<(), TestCaseError> {
    let names: BTreeMap<String, String> = broker
        .objects
        .queues
        .values()
        .map(|queue| {
            let bases = topology.objects().queues.into_keys();
            let mut bases = bases.filter(|base| number_of(base, &queue.name).is_some());
            (queue.name.clone(), bases.next().unwrap_or_else(|| queue.name.clone()))
        })
        .collect();
    let Objects { exchanges, queues, bindings } = broker.objects.clone();
    let count = queues.len();
    let first = Objects {
        exchanges,
        queues: queues
            .into_values()
            .map(|queue| {
                (names[&queue.name].clone(), Queue { name: names[&queue.name].clone(), ..queue })
            })
            .collect(),
        bindings: bindings
            .into_iter()
            .map(|binding| {
                let first = names.get(&binding.destination).unwrap_or(&binding.destination);
                Binding { destination: first.clone(), ..binding }
            })
            .collect(),
    };
    prop_assert_eq!(count, first.queues.len(), "two generations of one queue");
    prop_assert_eq!(first, topology.objects());
    Ok(())
}

fn count(objects: &Objects) -> usize {
    objects.exchanges.len() + objects.queues.len() + objects.bindings.len()
}

/// The objects after some were deleted; the broker deletes the bindings with their ends.
fn without(objects: &Objects, deleted: &[Index]) -> Objects {
    let mut left = objects.clone();
    for index in deleted {
        match index.index(count(objects)) {
            nth if nth < objects.exchanges.len() => {
                let name = objects.exchanges.keys().nth(nth).expect("in range");
                left.exchanges.remove(name);
            }
            nth if nth < objects.exchanges.len() + objects.queues.len() => {
                let name = objects.queues.keys().nth(nth - objects.exchanges.len());
                left.queues.remove(name.expect("in range"));
            }
            nth => {
                let nth = nth - objects.exchanges.len() - objects.queues.len();
                let binding = objects.bindings.iter().nth(nth).expect("in range");
                left.bindings.remove(binding);
            }
        }
    }
    let Objects { exchanges, queues, .. } = left.clone();
    left.bindings.retain(|binding| {
        let to = &binding.destination;
        let there =
            if binding.to_queue { queues.contains_key(to) } else { exchanges.contains_key(to) };
        there && exchanges.contains_key(&binding.source)
    });
    left
}

/// Names that look like ours and are not: no prefix, another one, ours without the dot, or with it and
/// not of our shape.
fn foreign_name() -> impl Strategy<Value = String> {
    "|amq\\.topic|=x\\.in|[a-z]{1,6}=\\.(in|dlx|park|delay\\.30m|unpaid)\
     |=\\.(audit\\.log|delay\\.(half|31s\\.02|31s\\.x)|\\.\\.|eu\\.unpaid)"
}

/// Adds somebody else's objects; `=` in a name stands for the topology's own name.
fn with_foreign(broker: &Snapshot, topology: &Topology, names: &[String]) -> Snapshot {
    let mut shared = broker.clone();
    for name in names {
        let name = name.replace('=', &topology.name);
        let exchange = Exchange {
            name: name.clone(),
            kind: "headers".to_owned(),
            durable: false,
            auto_delete: true,
            internal: false,
            arguments: BTreeMap::new(),
        };
        let queue = Queue {
            name: name.clone(),
            kind: "stream".to_owned(),
            durable: true,
            auto_delete: true,
            exclusive: true,
            arguments: [("x-message-ttl".to_owned(), "soon".into())].into(),
        };
        let binding = |source: &str, destination: &str| Binding {
            source: source.to_owned(),
            destination: destination.to_owned(),
            to_queue: true,
            routing_key: "#".to_owned(),
            arguments: BTreeMap::new(),
        };
        // Theirs too: a queue of theirs on our exchange, the default exchange's bindings.
        shared.objects.bindings.insert(binding(&topology.due_exchange(), &name));
        shared.objects.bindings.insert(binding(&topology.events_exchange(), &name));
        shared.objects.bindings.insert(binding("", &topology.parked_queue()));
        shared.objects.exchanges.insert(name.clone(), exchange);
        shared.messages.insert(name.clone(), 0);
        shared.objects.queues.insert(name, queue);
    }
    shared
}
