//! What a plan asks the broker about before it is believed: the statistics are late, and say nothing of the time.

use overdue::internals::{
    objects::Binding,
    plan::{Plan, Snapshot},
    topology::Topology,
};

use crate::{
    broker_model::{applied, plan},
    plan_texts::{SMALL, holding, small, without_unshipped},
};

/// The queues that are to be looked at, and whether the levels, the acks and the time matter, too.
fn looks_at(plan: &Plan) -> (String, bool) {
    let queues: Vec<String> = plan.leaving().into_iter().collect();
    (queues.join(" "), plan.removes_timeouts())
}

fn without_a_level() -> Topology {
    Topology::parse(&SMALL.replace("30m", "20m")).expect("a good file")
}

fn foreign(broker: &mut Snapshot) {
    let theirs = ("legacy".to_owned(), "shop.unshipped".to_owned());
    let (source, destination) = theirs;
    let binding = Binding { source, destination, to_queue: true, ..Binding::default() };
    broker.objects.bindings.insert(binding);
}

#[test]
fn a_queue_is_looked_at_as_long_as_it_goes() {
    let level = ("shop.delay.30m".to_owned(), false);
    let shorter = without_a_level();
    for waiting in [Some(0), Some(3), None] {
        let mut broker = holding("shop.delay.30m", waiting);
        let first = plan(&shorter, &broker);
        assert_eq!(looks_at(&first), level, "{first}");
        if waiting == Some(3) {
            broker = applied(&broker, &first);
            assert_eq!(looks_at(&plan(&shorter, &broker)), level);
            // Unbound before, and empty by now.
            broker.messages.insert("shop.delay.30m".to_owned(), 0);
            assert_eq!(looks_at(&plan(&shorter, &broker)), level);
        }
    }
    assert_eq!(looks_at(&plan(&small(), &Snapshot::default())), (String::new(), false));
    assert_eq!(looks_at(&plan(&small(), &Snapshot::of(&small()))), (String::new(), false));
}

/// Gone at once, refused, in stages, or fed by others; and one that is in the file again.
#[test]
fn the_time_matters_while_a_timeout_is_removed() {
    let removed = ("shop.unshipped".to_owned(), true);
    let at_once = plan(&without_unshipped(), &Snapshot::of(&small()));
    assert_eq!(looks_at(&at_once), removed, "{at_once}");
    let refused = plan(&without_unshipped(), &holding("shop.unshipped", Some(12)));
    assert_eq!(looks_at(&refused), removed, "{refused}");
    let mut broker = holding("shop.delay.30m", Some(40));
    let stages = plan(&without_unshipped(), &broker);
    assert_eq!(looks_at(&stages), removed, "{stages}");
    let leaving = applied(&broker, &stages);
    let next = plan(&without_unshipped(), &leaving);
    assert!(next.steps.is_empty() && looks_at(&next) == removed, "{next}");
    let back = plan(&small(), &leaving);
    assert!(!back.steps.is_empty() && looks_at(&back) == (String::new(), false), "{back}");
    foreign(&mut broker);
    let fed = plan(&without_unshipped(), &broker);
    assert_eq!(looks_at(&fed), removed, "{fed}");
}

/// They may have gone by the next look.
#[test]
fn a_queue_that_somebody_else_consumes_is_looked_at_again() {
    let mut broker = Snapshot::of(&small());
    broker.foreign_consumers.insert("shop.unshipped".to_owned(), 1);
    let plan = plan(&without_unshipped(), &broker);
    assert_eq!(looks_at(&plan), ("shop.unshipped".to_owned(), false), "{plan}");
}

/// An exchange is no queue, also where it is unbound.
#[test]
fn of_former_shards_the_queues_are_looked_at() {
    let shards = r#"name = "unpaid", shards = 2"#;
    let sharded =
        Topology::parse(&SMALL.replace(r#"name = "unpaid""#, shards)).expect("a good file");
    let plan = plan(&small(), &Snapshot::of(&sharded));
    let queues = "shop.unpaid.shard-0 shop.unpaid.shard-1".to_owned();
    assert_eq!(looks_at(&plan), (queues, false), "{plan}");
}

/// A queue says itself what is ready, and nothing of what is not; that none is ready proves nothing.
#[test]
fn a_count_is_corrected_by_what_is_ready_and_only_upwards() {
    for (counted, ready, is) in [
        (None, 0, None),
        (None, 3, Some(3)),
        (Some(2), 3, Some(3)),
        (Some(5), 3, Some(5)),
        (Some(5), 0, Some(5)),
    ] {
        let mut broker = holding("shop.unpaid", counted);
        broker.at_least("shop.unpaid", ready);
        assert_eq!(broker.messages_in("shop.unpaid"), is, "{counted:?} {ready}");
    }
}
