//! A removed timeout leaves in stages: when its queue is marked, how long it stays bound, and what ends that. `plan_removal` has
//! the same with messages, workers and time.

use std::collections::BTreeSet;

use overdue::internals::{
    objects::{Acks, Argument, Binding, Leaving, exchange_mark, mark},
    plan::{Change, Clock, Drains, Plan, Reason, Refusal, Snapshot, diff},
    topology::{Topology, level::Ttl},
};

use crate::{
    broker_model::plan,
    samples::{DELAYED, TWO_TIMEOUTS},
};

const REMOVED: &str = "orders.unshipped";
const NOW_S: u64 = 1_000;
const SETTLE_S: u64 = 11;

/// Without a lead: a level holds messages for as long as it is called.
fn topology(levels: &str, unshipped: &str) -> Topology {
    let unpaid = "[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\n";
    let text = format!(
        "name = \"orders\"\n[delay]\nlead = \"0s\"\nlevels = {levels}\n{unpaid}{unshipped}"
    );
    Topology::parse(&text).unwrap()
}

const UNSHIPPED: &str = "[[timeout]]\nname = \"unshipped\"\nafter = \"1s\"\n";
const LEVELS: &str = "[\"1s\", \"30m\"]";

fn broker() -> Snapshot {
    let clock = Some(Clock { now_s: NOW_S, counts_settle_s: SETTLE_S });
    Snapshot { clock, ..Snapshot::of(&topology(LEVELS, UNSHIPPED)) }
}

fn removed(broker: &Snapshot) -> Plan {
    plan(&topology(LEVELS, ""), broker)
}

fn holds(broker: &mut Snapshot, queue: &str, messages: u64) {
    broker.messages.insert(queue.to_owned(), messages);
}

const fn acks(count: u64) -> Acks {
    Acks { count, term: 1 }
}

/// It was marked that many seconds ago, when that many acks were counted.
fn marked(broker: &mut Snapshot, ago_s: u64, acked: Option<Acks>) {
    let leaving = Leaving { since_s: NOW_S - ago_s, acked };
    broker.objects.bindings.insert(mark("orders", REMOVED).unwrap().leaving(leaving));
}

fn acked(broker: &mut Snapshot, count: u64) {
    broker.acked.insert(REMOVED.to_owned(), acks(count));
}

/// An older generation of the queue, which drains.
fn older(broker: &mut Snapshot, name: &str, messages: u64) {
    let mut queue = broker.objects.queues["orders.unpaid"].clone();
    name.clone_into(&mut queue.name);
    queue.arguments.insert("x-max-length".to_owned(), Argument::Integer(7));
    broker.objects.queues.insert(name.to_owned(), queue);
    broker.objects.bindings.extend(mark("orders", name));
    holds(broker, name, messages);
}

/// The queues that it marks.
fn marks(plan: &Plan) -> Vec<&str> {
    let marks = plan.changes().filter_map(|change| match change {
        Change::Leave(mark) => Some(mark.destination.as_str()),
        _ => None,
    });
    marks.collect()
}

/// What it unbinds the queue from.
fn unbound<'a>(plan: &'a Plan, queue: &str) -> Vec<&'a str> {
    let sources = plan.changes().filter_map(|change| match change {
        Change::Unbind(it) if it.to_queue && it.destination == queue => Some(it.source.as_str()),
        _ => None,
    });
    sources.collect()
}

fn drains(plan: &Plan) -> Option<&Drains> {
    plan.draining.iter().find(|it| it.queue == REMOVED).map(|it| &it.drains)
}

/// The exchange of a strategy that the topology had before.
fn plugin(broker: &mut Snapshot, held: u64) {
    let exchange = Topology::parse(DELAYED).unwrap().objects().exchanges["orders.delayed"].clone();
    broker.objects.bindings.extend(exchange_mark("orders", &exchange.name));
    broker.delayed.insert(exchange.name.clone(), held);
    broker.objects.exchanges.insert(exchange.name.clone(), exchange);
}

type Edit<'a> = &'a dyn Fn(&mut Snapshot);

/// The longest way that something is on, and the time that counting takes, from the mark on; in milliseconds.
#[test]
fn how_long_it_stays_bound() {
    let table: [(&str, Option<u64>, Edit<'_>); 15] = [
        ("a level that is empty adds nothing", Some(12_000), &|it| acked(it, 5)),
        ("the longest level counts", Some(1_811_000), &|it| {
            acked(it, 5);
            holds(it, "orders.delay.30m", 1);
        }),
        ("an unmarked queue in the place of a level stays where it is", Some(1_811_000), &|it| {
            acked(it, 5);
            let level = "orders.delay.30m";
            it.objects.bindings.retain(|binding| mark("orders", level).as_ref() != Some(binding));
            let queue = it.objects.queues.get_mut(level).unwrap();
            queue.arguments.insert("x-max-length".to_owned(), Argument::Integer(7));
            holds(it, level, 1);
        }),
        ("what is not counted may hold something", Some(1_811_000), &|it| {
            acked(it, 5);
            it.messages.remove("orders.delay.30m");
        }),
        ("the time since the mark has passed", Some(7_000), &|it| {
            acked(it, 5);
            marked(it, 5, Some(acks(5)));
        }),
        ("dead letters in all slots are said once it has passed", Some(7_000), &|it| {
            acked(it, 5);
            marked(it, 5, Some(acks(5)));
            it.dead_letters.insert("orders.delay.1s".to_owned(), 32);
        }),
        ("an ack since then: from the beginning", Some(12_000), &|it| {
            acked(it, 6);
            marked(it, 500, Some(acks(5)));
        }),
        ("what workers put back is not known", None, &|it| marked(it, 5, None)),
        ("nothing can be put back where nothing waits", Some(6_000), &|it| {
            marked(it, 5, None);
            holds(it, "orders.delay.1s", 0);
        }),
        ("nothing is known of what others did before the mark", None, &|_| {}),
        ("an older generation is emptied first", None, &|it| {
            acked(it, 5);
            older(it, "orders.unshipped.2", 1);
        }),
        ("the plugin holds nothing", Some(12_000), &|it| {
            acked(it, 5);
            plugin(it, 0);
        }),
        (
            "the plugin holds messages for as long as it can",
            Some(u64::from(u32::MAX) + 11_000),
            &|it| {
                acked(it, 5);
                plugin(it, 1);
            },
        ),
        ("no clock", None, &|it| {
            acked(it, 5);
            it.clock = None;
        }),
        ("a mark that came later than now", Some(12_000), &|it| {
            acked(it, 5);
            it.objects
                .bindings
                .extend(mark("orders", REMOVED).map(|mark| {
                    mark.leaving(Leaving { since_s: NOW_S + 5, acked: Some(acks(5)) })
                }));
        }),
    ];
    for (what, expected, change) in table {
        let mut broker = broker();
        holds(&mut broker, "orders.delay.1s", 3);
        change(&mut broker);
        let plan = removed(&broker);
        let Some(Drains::Leaving { within, blocked, .. }) = drains(&plan) else {
            panic!("{what}: {plan}")
        };
        assert_eq!(within.map(Ttl::as_millis), expected, "{what}: {plan}");
        assert_eq!(*blocked, None, "{what}: {plan}");
    }
}

/// Another queue may take nothing of what comes out of a level: then all its slots are taken, and no time is enough.
#[test]
fn while_a_level_may_be_blocked_its_queue_stays_bound() {
    for (slots, dead_letters, stays) in [
        (None, 31, false),
        (None, 32, true),
        (Some(1_000), 999, false),
        (Some(1_000), 1_000, true),
        (Some(8), 8, true),
    ] {
        let mut broker = broker();
        broker.dead_letter_slots = slots;
        holds(&mut broker, "orders.delay.1s", 100);
        broker.dead_letters.insert("orders.delay.1s".to_owned(), dead_letters);
        acked(&mut broker, 5);
        marked(&mut broker, 500, Some(acks(5)));
        let plan = removed(&broker);
        assert_eq!(unbound(&plan, REMOVED).is_empty(), stays, "{plan}");
        let leaving = Drains::Leaving {
            in_levels: Some(100),
            within: Ttl::from_millis(1_000 * SETTLE_S),
            blocked: Some("orders.delay.1s".to_owned()),
        };
        assert_eq!(drains(&plan), stays.then_some(&leaving), "{plan}");
        assert_eq!(marks(&plan), Vec::<&str>::new(), "{plan}");
    }
}

/// Each ack of theirs may have been for a message that was put back.
#[test]
fn an_older_generation_is_emptied_before_the_mark() {
    for (messages, expected) in [(1, vec![]), (0, vec![REMOVED])] {
        let mut broker = broker();
        holds(&mut broker, "orders.delay.1s", 3);
        older(&mut broker, "orders.unshipped.2", messages);
        let plan = removed(&broker);
        assert_eq!(marks(&plan), expected, "{plan}");
    }
}

/// What is put back from a shard in use keeps that one bound, so shards do not wait for each other.
#[test]
fn shards_are_marked_together_once_what_was_before_them_is_empty() {
    let shards = ["orders.unshipped.shard-0", "orders.unshipped.shard-1"];
    for (before, in_shard, expected) in [(1, 0, vec![]), (0, 4, shards.to_vec())] {
        let mut broker = broker();
        broker.objects = topology(LEVELS, &format!("{UNSHIPPED}shards = 2")).objects();
        holds(&mut broker, "orders.delay.1s", 3);
        holds(&mut broker, shards[0], 0);
        holds(&mut broker, shards[1], in_shard);
        older(&mut broker, REMOVED, before);
        let plan = removed(&broker);
        assert_eq!(marks(&plan), expected, "{plan}");
    }
}

/// Once a level is deleted, nothing says how long its way was.
#[test]
fn while_levels_go_nothing_is_marked_and_a_mark_is_taken_away() {
    let fewer = topology("[\"1s\"]", "");
    let mut broker = broker();
    holds(&mut broker, "orders.delay.30m", 1);
    acked(&mut broker, 5);
    let first = plan(&fewer, &broker);
    assert_eq!((marks(&first), unbound(&first, REMOVED)), (vec![], vec![]), "{first}");
    marked(&mut broker, 5, Some(acks(5)));
    let second = plan(&fewer, &broker);
    assert_eq!((marks(&second), unbound(&second, REMOVED)), (vec![], vec!["orders.owned"]));
    for plan in [first, second] {
        let leaving = Drains::Leaving { in_levels: Some(1), within: None, blocked: None };
        assert_eq!(drains(&plan), Some(&leaving));
    }
}

/// What came in at the end is for a worker with the old topology, if there is one.
#[test]
fn what_is_left_in_it_at_the_end_is_consumed_or_stays() {
    let mut broker = broker();
    holds(&mut broker, "orders.delay.1s", 3);
    holds(&mut broker, REMOVED, 4);
    acked(&mut broker, 5);
    marked(&mut broker, 500, Some(acks(5)));
    let unconsumed = Drains::Unconsumed { queue: REMOVED.to_owned() };
    assert_eq!(drains(&removed(&broker)), Some(&unconsumed));
    broker.consumed.insert(REMOVED.to_owned());
    assert_eq!(drains(&removed(&broker)), Some(&Drains::Consumed));
}

/// What comes out after it is gone is parked, so the plan says how much that may be: nothing of what was published after the mark.
#[test]
fn a_plan_says_what_may_be_parked() {
    let in_levels = |change: Edit<'_>| {
        let mut broker = broker();
        holds(&mut broker, "orders.delay.1s", 3);
        acked(&mut broker, 5);
        change(&mut broker);
        let planned = diff(&topology(LEVELS, ""), &broker, &BTreeSet::from([REMOVED.to_owned()]));
        planned.steps.iter().find_map(|step| match step.reason {
            Reason::TimeoutRemoved { in_levels, .. } => Some(in_levels),
            _ => None,
        })
    };
    assert_eq!(in_levels(&|_| {}), Some(3));
    assert_eq!(in_levels(&|it| marked(it, 5, Some(acks(5)))), Some(3));
    assert_eq!(in_levels(&|it| marked(it, 500, Some(acks(5)))), Some(0));
}

#[test]
fn what_is_not_counted_is_not_discarded() {
    let mut broker = broker();
    broker.messages.remove(REMOVED);
    let planned = diff(&topology(LEVELS, ""), &broker, &BTreeSet::from([REMOVED.to_owned()]));
    assert_eq!(planned.refusals, [Refusal::Occupied { queue: REMOVED.to_owned(), messages: None }]);
    assert_eq!(planned.steps, []);
}

/// A level, and a queue that another one takes the place of: what they hold is for timeouts that are kept.
#[test]
fn only_the_queue_of_a_removed_timeout_is_discarded() {
    for queue in ["orders.delay.30m", "orders.unpaid"] {
        let text = TWO_TIMEOUTS
            .replace("\"3s\", \"30m\"", "\"3s\"")
            .replace("after = \"30m\"", "after = \"3s\"");
        let after = text.replace("type = \"quorum\"", "delivery_limit = 7");
        let mut broker = Snapshot::of(&Topology::parse(TWO_TIMEOUTS).unwrap());
        holds(&mut broker, queue, 3);
        let named = BTreeSet::from([queue.to_owned()]);
        let planned = diff(&Topology::parse(&after).unwrap(), &broker, &named);
        assert_eq!(planned.refusals, [Refusal::Kept { queue: queue.to_owned() }]);
        assert_eq!(planned.lost(), 0, "{planned}");
        assert!(planned.draining.iter().any(|it| it.queue == queue), "{planned}");
    }
}

/// The plugin drops what it has no route for when it is due.
#[test]
fn nothing_is_unbound_from_an_exchange_of_the_plugin_before_that_is_gone() {
    let mut broker = Snapshot::of(&Topology::parse(DELAYED).unwrap());
    broker.delayed.insert("orders.delayed".to_owned(), 3);
    holds(&mut broker, REMOVED, 2);
    let text = TWO_TIMEOUTS.replace("type = \"quorum\"", "delivery_limit = 7");
    let mut after = Topology::parse(&text).unwrap();
    let planned = plan(&after, &broker);
    assert_eq!(unbound(&planned, "orders.unpaid"), ["orders.dlx"], "{planned}");
    // Given up is given up.
    after.timeouts.retain(|it| it.name == "unpaid");
    let planned = diff(&after, &broker, &BTreeSet::from([REMOVED.to_owned()]));
    assert_eq!(unbound(&planned, REMOVED), ["orders.delayed", "orders.dlx"], "{planned}");
    assert_eq!(planned.lost(), 2, "{planned}");
}

/// A binding of an exchange that has the queue's name is no binding of the queue.
#[test]
fn an_exchange_with_the_name_of_a_queue_is_another_thing() {
    let mut broker = broker();
    broker.objects.bindings.insert(Binding {
        source: "shop".to_owned(),
        destination: REMOVED.to_owned(),
        to_queue: false,
        ..Binding::default()
    });
    let planned = removed(&broker);
    assert_eq!((&planned.draining[..], unbound(&planned, REMOVED)), (&[][..], vec!["orders.dlx"]));
}
