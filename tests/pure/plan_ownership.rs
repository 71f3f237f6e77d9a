//! Whose a queue is: what has the mark of the topology is retired, what is in the place of one of its queues counts as that, and
//! everything else is left alone, however much it looks like one of ours.

use std::collections::BTreeMap;

use overdue::internals::{
    objects::{Argument, Binding, mark},
    plan::{Change, Drains, Note, QueueStats, Snapshot, parking_lots},
    topology::Topology,
    verify::findings,
};
use serde_json::json;

use crate::{
    broker_model::{applied, plan},
    samples::{LADDER, TWO_TIMEOUTS, two_timeouts},
};

/// A queue with the arguments of `like`, and one more if it is to differ from what is wanted.
fn add(broker: &mut Snapshot, name: &str, like: &str, differs: bool) {
    let mut queue = broker.objects.queues[like].clone();
    name.clone_into(&mut queue.name);
    if differs {
        queue.arguments.insert("x-max-length".to_owned(), Argument::Integer(7));
    }
    broker.objects.queues.insert(name.to_owned(), queue);
    broker.messages.insert(name.to_owned(), 0);
}

/// As somebody leaves it who makes a queue by hand: bound, without a mark.
fn without_mark(broker: &mut Snapshot, name: &str, differs: bool) {
    add(broker, name, name, differs);
    broker.objects.bindings.retain(|it| it.destination != name || it.mark_of().is_none());
}

/// The form can be anybody's: whoever wants it retired marks it, as the note says.
#[test]
fn what_has_the_form_of_ours_and_no_mark_is_left_alone_until_it_is_marked() {
    for (name, like, differs, source, key) in [
        ("orders.delay.77s", "orders.delay.30m", false, "orders.in", "77s.*"),
        ("orders.delay.30m.2", "orders.delay.30m", true, "orders.in", "30m.*"),
        ("orders.refunds", "orders.unpaid", false, "orders.dlx", "#.refunds"),
        ("orders.unpaid.2", "orders.unpaid", true, "orders.dlx", "#.unpaid"),
        ("orders.unpaid.shard-7", "orders.unpaid", false, "orders.dlx", "#.unpaid"),
        ("orders.parked.2", "orders.parked", true, "orders.park", ""),
    ] {
        let mut broker = Snapshot::of(&two_timeouts());
        add(&mut broker, name, like, differs);
        let bound = Binding {
            source: source.to_owned(),
            destination: name.to_owned(),
            to_queue: true,
            routing_key: key.to_owned(),
            ..Binding::default()
        };
        broker.objects.bindings.insert(bound.clone());
        let mark = mark("orders", name).unwrap();
        let left = plan(&two_timeouts(), &broker);
        let note = Note::Unmarked {
            queue: name.to_owned(),
            exchange: mark.source.clone(),
            mark: mark.routing_key.clone(),
        };
        assert_eq!(
            (&left.steps[..], &left.draining[..], &left.notes[..]),
            (&[][..], &[][..], &[note][..])
        );
        broker.objects.bindings.insert(mark);
        let retired = plan(&two_timeouts(), &broker);
        let changes: Vec<&Change> = retired.changes().collect();
        let deleted = Change::DeleteQueue { queue: name.to_owned(), lost: 0 };
        assert_eq!(changes, [&Change::Unbind(bound), &deleted], "{retired}");
    }
}

/// The queue of their timeout `1s` has the name of a level of the topology.
#[test]
fn what_another_topology_has_marked_is_left_alone() {
    let mut theirs = two_timeouts();
    theirs.name = "orders.delay".to_owned();
    theirs.timeouts[0].name = "1s".to_owned();
    let mut broker = Snapshot::of(&theirs);
    broker.consumed.insert("orders.delay.1s".to_owned());
    let built = applied(&broker, &plan(&two_timeouts(), &broker));
    assert!(built.objects.queues.contains_key("orders.delay.1s.2"));
    assert!(theirs.objects().queues.iter().all(|it| built.objects.queues.get(it.0) == Some(it.1)));
    assert!(built.objects.bindings.is_superset(&theirs.objects().bindings));
    let again = plan(&two_timeouts(), &built);
    assert_eq!(
        (&again.steps[..], &again.draining[..], &again.notes[..]),
        (&[][..], &[][..], &[][..])
    );
}

/// It has all that a level of the topology has, but the mark.
#[test]
fn what_is_somebody_elses_is_neither_examined_nor_waited_for() {
    let name = "orders.delay.77s";
    let mut broker = Snapshot::of(&two_timeouts());
    add(&mut broker, name, "orders.delay.30m", false);
    broker.messages.insert(name.to_owned(), 5);
    let expires = json!({ "expires": 5 }).as_object().unwrap().clone();
    let stats = QueueStats {
        name: name.to_owned(),
        policy: Some("theirs".to_owned()),
        effective_policy_definition: expires.into_iter().collect(),
        ..QueueStats::default()
    };
    let found = findings(
        &two_timeouts(),
        &broker,
        &BTreeMap::from([(name.to_owned(), stats)]),
        super::verify::NOW,
    );
    let rules: Vec<&str> = found.iter().map(|it| it.rule).collect();
    assert_eq!(rules, ["unmarked-queue"], "{found:?}");
    assert_eq!(held_up(TWO_TIMEOUTS, &broker), None);
}

/// How many messages in levels a plan waits for that removes `unshipped`; `None` if the queue goes at once.
fn held_up(before: &str, broker: &Snapshot) -> Option<u64> {
    let mut without = Topology::parse(before).unwrap();
    without.timeouts.retain(|it| it.name != "unshipped");
    let planned = plan(&without, broker);
    let draining = planned.draining.iter().find(|it| it.queue == "orders.unshipped")?;
    let Drains::Leaving { in_levels, .. } = draining.drains else { panic!("{planned}") };
    in_levels
}

/// What waits there comes out for the timeout that is removed, whoever has taken the mark away.
#[test]
fn a_queue_in_the_place_of_a_level_is_waited_for_with_and_without_a_mark() {
    let compat = format!("{TWO_TIMEOUTS}[compat.x-delay]\nexchange = \"old\"\n");
    for (text, level, differs) in [
        (TWO_TIMEOUTS, "orders.delay.30m", false),
        (TWO_TIMEOUTS, "orders.delay.30m", true),
        (LADDER, "orders.ladder.delay.30m", false),
        (&compat, "orders.compat.delay.30m", true),
    ] {
        let mut broker = Snapshot::of(&Topology::parse(text).unwrap());
        broker.messages.insert(level.to_owned(), 1);
        assert_eq!(held_up(text, &broker), Some(1), "{level}");
        without_mark(&mut broker, level, differs);
        broker.messages.insert(level.to_owned(), 1);
        assert_eq!(held_up(text, &broker), Some(1), "{level}");
    }
    // The next plan takes a generation into use that is as it wants it, and no other one.
    for (differs, expected) in [(false, Some(1)), (true, None)] {
        let mut broker = Snapshot::of(&two_timeouts());
        add(&mut broker, "orders.delay.30m.2", "orders.delay.30m", differs);
        broker.messages.insert("orders.delay.30m.2".to_owned(), 1);
        assert_eq!(held_up(TWO_TIMEOUTS, &broker), expected);
    }
}

/// Nothing is taken out of a queue of somebody else.
#[test]
fn parking_lots_are_the_one_in_use_and_those_that_it_has_replaced() {
    let mut broker = Snapshot::of(&two_timeouts());
    for (name, differs) in
        [("orders.parked.2", true), ("orders.parked.3", true), ("orders.parked.4", false)]
    {
        add(&mut broker, name, "orders.parked", differs);
    }
    broker.objects.bindings.extend(mark("orders", "orders.parked.2"));
    without_mark(&mut broker, "orders.parked", true);
    let lots = parking_lots(&two_timeouts(), &broker.objects);
    assert_eq!(lots, ["orders.parked", "orders.parked.2", "orders.parked.4"]);
}
