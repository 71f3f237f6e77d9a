//! Plans as a person reads them.

use std::collections::BTreeSet;

use overdue::{
    plan::{diff::diff, snapshot::Snapshot},
    topology::{Topology, objects::Argument},
};

use crate::broker_model::{applied, plan};

const SMALL: &str = r#"name = "shop"
delay.levels = ["1s", "30m"]
queues.type = "classic"
timeout = [{ name = "unpaid", after = "30m" }, { name = "unshipped", after = "30m" }]
"#;

fn topology(change: (&str, &str)) -> Topology {
    assert!(SMALL.contains(change.0), "{}", change.0);
    Topology::parse(&SMALL.replace(change.0, change.1)).expect("a good file")
}

fn small() -> Topology {
    topology(("", ""))
}

/// The small topology with this many messages in a queue.
fn holding(queue: &str, messages: Option<u64>) -> Snapshot {
    let mut broker = Snapshot::of(&small());
    assert!(broker.objects.queues.contains_key(queue), "{queue}");
    broker.messages.remove(queue);
    broker.messages.extend(messages.map(|messages| (queue.to_owned(), messages)));
    broker
}

fn without_unshipped() -> Topology {
    topology((r#", { name = "unshipped", after = "30m" }"#, ""))
}

#[test]
fn a_first_plan() {
    insta::assert_snapshot!(plan(&small(), &Snapshot::default()), @"");
}

#[test]
fn a_level_that_changed_with_messages_waiting() {
    let shorter = Topology::parse(&SMALL.replace("30m", "20m")).expect("a good file");
    insta::assert_snapshot!(plan(&shorter, &holding("shop.delay.30m", Some(200_000))), @"");
}

#[test]
fn a_level_that_changed_with_nobody_knows_what_waiting() {
    let shorter = Topology::parse(&SMALL.replace("30m", "20m")).expect("a good file");
    insta::assert_snapshot!(plan(&shorter, &holding("shop.delay.30m", None)), @"");
}

#[test]
fn another_queue_type() {
    let quorum = topology(("classic", "quorum"));
    insta::assert_snapshot!(plan(&quorum, &holding("shop.unpaid", Some(1))), @"");
}

#[test]
fn a_timeout_that_was_removed() {
    insta::assert_snapshot!(plan(&without_unshipped(), &Snapshot::of(&small())), @"");
}

#[test]
fn a_timeout_that_was_removed_with_messages() {
    let broker = holding("shop.unshipped", Some(12));
    insta::assert_snapshot!(plan(&without_unshipped(), &broker), @"");
}

#[test]
fn a_timeout_that_was_removed_with_nobody_knows_how_many_messages() {
    let broker = holding("shop.unshipped", None);
    insta::assert_snapshot!(plan(&without_unshipped(), &broker), @"");
}

#[test]
fn a_timeout_that_was_removed_and_discarded() {
    let discard = BTreeSet::from(["shop.unshipped".to_owned()]);
    let broker = holding("shop.unshipped", Some(12));
    insta::assert_snapshot!(diff(&without_unshipped(), &broker, &discard), @"");
}

#[test]
fn an_exchange_that_cannot_be_changed() {
    let mut broker = Snapshot::of(&small());
    let exchange = broker.objects.exchanges.get_mut("shop.in").expect("there");
    exchange.kind = "direct".to_owned();
    exchange.arguments.clear();
    insta::assert_snapshot!(plan(&small(), &broker), @"");
}

#[test]
fn every_difference_of_a_queue() {
    let mut broker = Snapshot::of(&small());
    let queue = broker.objects.queues.get_mut("shop.unpaid").expect("there");
    queue.kind = "quorum".to_owned();
    queue.durable = false;
    queue.arguments.remove("x-dead-letter-exchange");
    queue.arguments.insert("x-max-length".to_owned(), Argument::Integer(10));
    insta::assert_snapshot!(plan(&small(), &broker), @"");
}

#[test]
fn only_draining() {
    let shorter = Topology::parse(&SMALL.replace("30m", "20m")).expect("a good file");
    let broker = holding("shop.delay.30m", Some(3));
    let later = applied(&broker, &plan(&shorter, &broker));
    insta::assert_snapshot!(plan(&shorter, &later), @"");
}
