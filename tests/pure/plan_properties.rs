//! The planner as algebra: plans converge, are stable, and keep their hands off what is not theirs.

use std::collections::BTreeMap;

use overdue::{
    plan::{Plan, diff::diff},
    topology::{
        Topology,
        objects::{Binding, Exchange, Objects, Queue},
    },
};
use proptest::{collection, prelude::*, sample::Index};

use crate::{
    broker_model::{applied, apply},
    generate,
};

proptest! {
    #[test]
    fn a_broker_that_has_it_needs_nothing(topology in generate::topology()) {
        let plan = diff(&topology, &topology.objects());
        prop_assert!(plan.is_empty(), "{}", plan);
        prop_assert_eq!(plan.to_string(), "no change: the broker has this topology");
    }

    #[test]
    fn an_empty_broker_gets_exactly_the_objects(topology in generate::topology()) {
        let plan = diff(&topology, &Objects::default());
        prop_assert_eq!(&plan.conflicts, &[]);
        prop_assert_eq!(applied(&Objects::default(), &plan), topology.objects());
    }

    /// Stopped anywhere and planned anew, the rest of the work is the rest of the first plan.
    #[test]
    fn a_plan_that_was_stopped_goes_on_where_it_was(
        topology in generate::topology(),
        stop in any::<Index>(),
    ) {
        let first = diff(&topology, &Objects::default());
        let stop = stop.index(first.changes.len() + 1);
        let mut broker = Objects::default();
        first.changes[..stop].iter().for_each(|change| apply(&mut broker, change));
        let rest = diff(&topology, &broker);
        prop_assert_eq!(&rest.changes, &first.changes[stop..]);
        prop_assert_eq!(&rest.conflicts, &[]);
        prop_assert_eq!(applied(&broker, &rest), topology.objects());
    }

    /// Whatever somebody deleted by hand is put back, and nothing else is touched.
    #[test]
    fn whatever_is_missing_is_created(
        topology in generate::topology(),
        deleted in collection::vec(any::<Index>(), 1..6),
    ) {
        let desired = topology.objects();
        let broker = without(&desired, &deleted);
        let plan = diff(&topology, &broker);
        prop_assert_eq!(&plan.conflicts, &[]);
        prop_assert_eq!(plan.changes.len(), count(&desired) - count(&broker));
        prop_assert_eq!(applied(&broker, &plan), desired);
    }

    #[test]
    fn an_earlier_version_grows_into_the_later_one(written in generate::written()) {
        let (earlier, later) = (written.earlier().read(), written.read());
        let plan = diff(&later, &earlier.objects());
        prop_assert_eq!(applied(&earlier.objects(), &plan), later.objects());
    }

    #[test]
    fn what_belongs_to_others_changes_nothing(
        topology in generate::topology(),
        names in collection::vec(foreign_name(), 1..5),
        stop in any::<Index>(),
    ) {
        let first = diff(&topology, &Objects::default());
        let mut broker = Objects::default();
        let stop = stop.index(first.changes.len() + 1);
        first.changes[..stop].iter().for_each(|change| apply(&mut broker, change));
        let shared = with_foreign(&broker, &topology, &names);
        prop_assert_ne!(&broker, &shared);
        prop_assert_eq!(diff(&topology, &broker), diff(&topology, &shared));
    }

    #[test]
    fn the_same_input_gives_the_same_bytes(
        written in generate::written(),
        deleted in collection::vec(any::<Index>(), 0..9),
    ) {
        let print = || {
            let topology = written.read();
            diff(&topology, &without(&topology.objects(), &deleted)).to_string()
        };
        prop_assert_eq!(print(), print());
    }

    #[test]
    fn every_change_is_one_line_and_counted(topology in generate::topology()) {
        let plan = diff(&topology, &Objects::default());
        let text = plan.to_string();
        let (last, lines) = lines(&text);
        prop_assert_eq!(lines.len(), plan.changes.len());
        for (line, change) in lines.iter().zip(&plan.changes) {
            prop_assert_eq!(*line, format!("  + {change}"));
        }
        let objects = topology.objects();
        let (exchanges, queues, bindings) =
            (objects.exchanges.len(), objects.queues.len(), objects.bindings.len());
        let counted =
            format!("to create: {exchanges} exchanges, {queues} queues, {bindings} bindings");
        prop_assert_eq!(last, counted);
    }
}

#[test]
fn an_empty_plan_is_no_change() {
    assert!(Plan::default().is_empty());
}

fn lines(text: &str) -> (&str, Vec<&str>) {
    let mut lines: Vec<&str> = text.lines().collect();
    (lines.pop().unwrap_or_default(), lines)
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
        exchanges.contains_key(&binding.source) && queues.contains_key(&binding.destination)
    });
    left
}

/// Names that look like ours and are not: no prefix, another one, or ours without the dot.
fn foreign_name() -> impl Strategy<Value = String> {
    "|amq\\.topic|=x\\.in|[a-z]{1,6}=\\.(in|dlx|park|delay\\.30m|unpaid)"
}

/// Adds somebody else's objects; `=` in a name stands for the topology's own name.
fn with_foreign(objects: &Objects, topology: &Topology, names: &[String]) -> Objects {
    let mut shared = objects.clone();
    for name in names {
        let name = name.replace('=', &topology.name);
        let exchange = Exchange {
            name: name.clone(),
            kind: "headers".to_owned(),
            durable: false,
            auto_delete: true,
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
        shared.bindings.insert(binding(&topology.due_exchange(), &name));
        shared.bindings.insert(binding("", &topology.parked_queue()));
        shared.exchanges.insert(name.clone(), exchange);
        shared.queues.insert(name, queue);
    }
    shared
}
