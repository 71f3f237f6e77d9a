//! Plans as a person reads them.

use std::collections::BTreeSet;

use overdue::internals::{
    objects::Argument,
    plan::{Draining, Drains, Refusal, Snapshot, diff},
    topology::{Topology, file::QueueType},
};

use crate::broker_model::{applied, plan};

pub(crate) const SMALL: &str = r#"name = "shop"
delay.levels = ["1s", "30m"]
queues.type = "classic"
timeout = [{ name = "unpaid", after = "30m" }, { name = "unshipped", after = "30m" }]
"#;

fn topology(change: (&str, &str)) -> Topology {
    assert!(SMALL.contains(change.0), "{}", change.0);
    Topology::parse(&SMALL.replace(change.0, change.1)).expect("a good file")
}

pub(crate) fn small() -> Topology {
    topology(("", ""))
}

/// The small topology with this many messages in a queue.
pub(crate) fn holding(queue: &str, messages: Option<u64>) -> Snapshot {
    let mut broker = Snapshot::of(&small());
    assert!(broker.objects.queues.contains_key(queue), "{queue}");
    broker.messages.remove(queue);
    broker.messages.extend(messages.map(|messages| (queue.to_owned(), messages)));
    broker
}

pub(crate) fn without_unshipped() -> Topology {
    topology((r#", { name = "unshipped", after = "30m" }"#, ""))
}

#[test]
fn a_first_plan() {
    insta::assert_snapshot!(plan(&small(), &Snapshot::default()), @r"
    Create
      + exchange  shop.owned  (direct)
      + exchange  shop.park  (fanout)
      + queue     shop.parked  (classic)
      + binding   shop.park -> shop.parked
      + exchange  shop.again  (topic)
      + exchange  shop.dlx  (topic, alternate-exchange=shop.park)
      + exchange  shop.events  (topic)
      + queue     shop.unpaid  (classic, x-dead-letter-exchange=shop.park)
      + queue     shop.unshipped  (classic, x-dead-letter-exchange=shop.park)
      + binding   shop.dlx -> shop.unpaid  (#.unpaid)
      + binding   shop.dlx -> shop.unshipped  (#.unshipped)
      + queue     shop.delay.1s  (classic, x-dead-letter-exchange=shop.dlx, x-message-ttl=750)
      + queue     shop.delay.30m  (classic, x-dead-letter-exchange=shop.dlx, x-message-ttl=1798000)
      + exchange  shop.in  (topic, alternate-exchange=shop.park)
      + binding   shop.again -> shop.delay.1s  (1s.*)
      + binding   shop.in -> shop.delay.1s  (1s.*)
      + binding   shop.again -> shop.delay.30m  (30m.*)
      + binding   shop.in -> shop.delay.30m  (30m.*)
    6 exchanges to create, 5 queues to create, 7 bindings to add; no message is lost
    ");
}

fn ladder() -> Topology {
    let max = "delay.strategy = \"ladder\"\ndelay.ladder.max = \"90s\"";
    Topology::parse(&SMALL.replace("delay.levels = [\"1s\", \"30m\"]", max).replace("30m", "1m"))
        .expect("a good file")
}

/// A line for each place, not for each of its queues and bindings.
#[test]
fn a_ladder() {
    insta::assert_snapshot!(plan(&ladder(), &Snapshot::default()));
    let text = plan(&ladder(), &Snapshot::default()).to_string();
    assert!(text.lines().count() < 25, "{text}");
}

#[test]
fn levels_to_a_ladder_and_back() {
    let there = plan(&ladder(), &Snapshot::of(&small()));
    insta::assert_snapshot!(there);
    let mut waiting = Snapshot::of(&ladder());
    waiting.messages.insert("shop.ladder.delay.30s".to_owned(), 7);
    let back = plan(&small(), &waiting);
    insta::assert_snapshot!(back);
    let next = plan(&small(), &applied(&waiting, &back));
    insta::assert_snapshot!(next);
}

#[test]
fn a_ladder_of_another_queue_type_and_one_without_marks() {
    let quorum = Topology { queue_type: QueueType::Quorum, ..ladder() };
    insta::assert_snapshot!(plan(&quorum, &Snapshot::of(&ladder())));
    let mut unmarked = Snapshot::of(&ladder());
    unmarked.objects.bindings.retain(|it| it.mark_of().is_none());
    insta::assert_snapshot!(plan(&ladder(), &unmarked));
}

#[test]
fn a_level_that_changed_with_messages_waiting() {
    let shorter = Topology::parse(&SMALL.replace("30m", "20m")).expect("a good file");
    insta::assert_snapshot!(plan(&shorter, &holding("shop.delay.30m", Some(200_000))), @r"
    Create
      + queue     shop.delay.20m  (classic, x-dead-letter-exchange=shop.dlx, x-message-ttl=1198000)
      + binding   shop.again -> shop.delay.20m  (20m.*)
      + binding   shop.in -> shop.delay.20m  (20m.*)
    Retire
      - binding   shop.again -> shop.delay.30m  (30m.*)
            level 30m is no longer in the topology; what publishers still send to it is parked; it has 200000 messages to come out when due, the last within 30m
      - binding   shop.in -> shop.delay.30m  (30m.*)
            level 30m is no longer in the topology; what publishers still send to it is parked; it has 200000 messages to come out when due, the last within 30m
    Draining (deleted by a later apply, once empty)
      ~ queue     shop.delay.30m  200000 messages to come out when due, the last within 30m
    1 queue to create, 2 bindings to add, 2 bindings to take away; 1 retired queue is draining; no message is lost
    ");
}

#[test]
fn a_level_that_changed_with_nobody_knows_what_waiting() {
    let shorter = Topology::parse(&SMALL.replace("30m", "20m")).expect("a good file");
    insta::assert_snapshot!(plan(&shorter, &holding("shop.delay.30m", None)), @r"
    Create
      + queue     shop.delay.20m  (classic, x-dead-letter-exchange=shop.dlx, x-message-ttl=1198000)
      + binding   shop.again -> shop.delay.20m  (20m.*)
      + binding   shop.in -> shop.delay.20m  (20m.*)
    Retire
      - binding   shop.again -> shop.delay.30m  (30m.*)
            level 30m is no longer in the topology; what publishers still send to it is parked; it has an unknown number of messages to come out when due, the last within 30m
      - binding   shop.in -> shop.delay.30m  (30m.*)
            level 30m is no longer in the topology; what publishers still send to it is parked; it has an unknown number of messages to come out when due, the last within 30m
    Draining (deleted by a later apply, once empty)
      ~ queue     shop.delay.30m  an unknown number of messages to come out when due, the last within 30m
    1 queue to create, 2 bindings to add, 2 bindings to take away; 1 retired queue is draining; no message is lost
    ");
}

#[test]
fn another_queue_type() {
    let quorum = topology(("classic", "quorum"));
    insta::assert_snapshot!(plan(&quorum, &holding("shop.unpaid", Some(1))), @r"
    Create
      + queue     shop.parked.2  (quorum, x-delivery-limit=-1)
            replaces shop.parked, which cannot be changed:
              type: broker has classic, topology wants quorum
              x-delivery-limit: broker has not set, topology wants -1
      + binding   shop.park -> shop.parked.2
      + queue     shop.unpaid.2  (quorum, x-dead-letter-exchange=shop.park, x-dead-letter-strategy=at-least-once, x-delivery-limit=100, x-overflow=reject-publish)
            replaces shop.unpaid, which cannot be changed:
              type: broker has classic, topology wants quorum
              x-dead-letter-strategy: broker has not set, topology wants at-least-once
              x-delivery-limit: broker has not set, topology wants 100
              x-overflow: broker has not set, topology wants reject-publish
      + queue     shop.unshipped.2  (quorum, x-dead-letter-exchange=shop.park, x-dead-letter-strategy=at-least-once, x-delivery-limit=100, x-overflow=reject-publish)
            replaces shop.unshipped, which cannot be changed:
              type: broker has classic, topology wants quorum
              x-dead-letter-strategy: broker has not set, topology wants at-least-once
              x-delivery-limit: broker has not set, topology wants 100
              x-overflow: broker has not set, topology wants reject-publish
      + binding   shop.dlx -> shop.unpaid.2  (#.unpaid)
      + binding   shop.dlx -> shop.unshipped.2  (#.unshipped)
      + queue     shop.delay.1s.2  (quorum, x-dead-letter-exchange=shop.dlx, x-dead-letter-strategy=at-least-once, x-message-ttl=750, x-overflow=reject-publish)
            replaces shop.delay.1s, which cannot be changed:
              type: broker has classic, topology wants quorum
              x-dead-letter-strategy: broker has not set, topology wants at-least-once
              x-overflow: broker has not set, topology wants reject-publish
      + queue     shop.delay.30m.2  (quorum, x-dead-letter-exchange=shop.dlx, x-dead-letter-strategy=at-least-once, x-message-ttl=1798000, x-overflow=reject-publish)
            replaces shop.delay.30m, which cannot be changed:
              type: broker has classic, topology wants quorum
              x-dead-letter-strategy: broker has not set, topology wants at-least-once
              x-overflow: broker has not set, topology wants reject-publish
      + binding   shop.again -> shop.delay.1s.2  (1s.*)
      + binding   shop.in -> shop.delay.1s.2  (1s.*)
      + binding   shop.again -> shop.delay.30m.2  (30m.*)
      + binding   shop.in -> shop.delay.30m.2  (30m.*)
    Retire
      - binding   shop.park -> shop.parked
            shop.parked.2 takes its place
      - binding   shop.dlx -> shop.unpaid  (#.unpaid)
            shop.unpaid.2 takes its place; it has 1 message for the workers to consume
      - binding   shop.dlx -> shop.unshipped  (#.unshipped)
            shop.unshipped.2 takes its place
      - binding   shop.again -> shop.delay.1s  (1s.*)
            shop.delay.1s.2 takes its place
      - binding   shop.in -> shop.delay.1s  (1s.*)
            shop.delay.1s.2 takes its place
      - binding   shop.again -> shop.delay.30m  (30m.*)
            shop.delay.30m.2 takes its place
      - binding   shop.in -> shop.delay.30m  (30m.*)
            shop.delay.30m.2 takes its place
    Delete
      - queue     shop.parked
            retired and empty
      - queue     shop.unshipped
            retired and empty
      - queue     shop.delay.1s
            retired and empty
      - queue     shop.delay.30m
            retired and empty
    Draining (deleted by a later apply, once empty)
      ~ queue     shop.unpaid  1 message for the workers to consume
    5 queues to create, 7 bindings to add, 7 bindings to take away, 4 queues to delete; 1 retired queue is draining; no message is lost
    ");
}

#[test]
fn an_exchange_that_cannot_be_changed() {
    let mut broker = Snapshot::of(&small());
    let exchange = broker.objects.exchanges.get_mut("shop.in").expect("there");
    exchange.kind = "direct".to_owned();
    exchange.arguments.clear();
    insta::assert_snapshot!(plan(&small(), &broker), @r"
    Refused
      ! exchange  shop.in exists with other properties
            type: broker has direct, topology wants topic
            alternate-exchange: broker has not set, topology wants shop.park
            RabbitMQ cannot change an exchange, and what is published while it is replaced would be lost:
            stop the publishers, delete it (`overdue verify` prints the command), and apply again. Bindings of others
            go with it, and apply does not restore them
    1 refusal; nothing is carried out
    ");
}

/// As in docs/leaving-the-delayed-message-plugin.md before the old exchange is gone. Also one that is to stay the plugin's.
#[test]
fn an_exchange_in_which_the_plugin_may_hold_messages_is_not_just_deleted() {
    let delayed = |name: &str, broker: &mut Snapshot| {
        let exchange = broker.objects.exchanges.get_mut(name).expect("there");
        exchange.kind = "x-delayed-message".to_owned();
        exchange.arguments = [("x-delayed-type".to_owned(), "direct".into())].into();
    };
    let compat = format!("{SMALL}[compat.x-delay]\nexchange = \"reminders\"\ntype = \"direct\"\n");
    let compat = Topology::parse(&compat).expect("a good file");
    let mut broker = Snapshot::of(&compat);
    delayed("reminders", &mut broker);
    insta::assert_snapshot!(plan(&compat, &broker), @r"
    Refused
      ! exchange  reminders exists with other properties
            type: broker has x-delayed-message, topology wants topic
            alternate-exchange: broker has not set, topology wants shop.compat.in
            x-delayed-type: broker has direct, topology wants not set
            it is of the delayed message plugin: what that holds would be lost, and bindings of others go with it.
            Delete it only once it holds nothing. The steps, and what it holds: overdue exit-plugin reminders
    1 refusal; nothing is carried out
    ");
    let strategy = SMALL.replace("delay.levels", "delay.strategy = \"delayed-exchange\"\n#");
    let strategy = Topology::parse(&strategy).expect("a good file");
    let mut broker = Snapshot::of(&strategy);
    delayed("shop.delayed", &mut broker);
    let text = plan(&strategy, &broker).to_string();
    assert!(
        text.contains("overdue exit-plugin shop.delayed") && !text.contains("stop the"),
        "{text}"
    );
}

#[test]
fn every_difference_of_a_queue() {
    let mut broker = Snapshot::of(&small());
    let queue = broker.objects.queues.get_mut("shop.unpaid").expect("there");
    queue.kind = "quorum".to_owned();
    queue.durable = false;
    queue.arguments.remove("x-dead-letter-exchange");
    queue.arguments.insert("x-max-length".to_owned(), Argument::Integer(10));
    insta::assert_snapshot!(plan(&small(), &broker), @r"
    Create
      + queue     shop.unpaid.2  (classic, x-dead-letter-exchange=shop.park)
            replaces shop.unpaid, which cannot be changed:
              type: broker has quorum, topology wants classic
              durable: broker has false, topology wants true
              x-dead-letter-exchange: broker has not set, topology wants shop.park
              x-max-length: broker has 10, topology wants not set
      + binding   shop.dlx -> shop.unpaid.2  (#.unpaid)
    Retire
      - binding   shop.dlx -> shop.unpaid  (#.unpaid)
            shop.unpaid.2 takes its place
    Delete
      - queue     shop.unpaid
            retired and empty
    1 queue to create, 1 binding to add, 1 binding to take away, 1 queue to delete; no message is lost
    ");
}

#[test]
fn only_draining() {
    let shorter = Topology::parse(&SMALL.replace("30m", "20m")).expect("a good file");
    let broker = holding("shop.delay.30m", Some(3));
    let later = applied(&broker, &plan(&shorter, &broker));
    insta::assert_snapshot!(plan(&shorter, &later), @r"
    Draining (deleted by a later apply, once empty)
      ~ queue     shop.delay.30m  3 messages to come out when due, the last within 30m
    no change: the broker has this topology; 1 retired queue is draining
    ");
}

/// What a foreign hand made: the queue has our name, and other rules.
#[test]
fn delay_queues_whose_messages_go_astray() {
    let mut broker = holding("shop.delay.30m", Some(3));
    let queue = broker.objects.queues.get_mut("shop.delay.30m").expect("there");
    queue.arguments.insert("x-dead-letter-exchange".to_owned(), "elsewhere".into());
    insta::assert_snapshot!(plan(&small(), &broker), @r"
    Create
      + queue     shop.delay.30m.2  (classic, x-dead-letter-exchange=shop.dlx, x-message-ttl=1798000)
            replaces shop.delay.30m, which cannot be changed:
              x-dead-letter-exchange: broker has elsewhere, topology wants shop.dlx
      + binding   shop.again -> shop.delay.30m.2  (30m.*)
      + binding   shop.in -> shop.delay.30m.2  (30m.*)
    Retire
      - binding   shop.again -> shop.delay.30m  (30m.*)
            shop.delay.30m.2 takes its place; it has 3 messages to be dead-lettered to exchange elsewhere, as before
      - binding   shop.in -> shop.delay.30m  (30m.*)
            shop.delay.30m.2 takes its place; it has 3 messages to be dead-lettered to exchange elsewhere, as before
    Draining (deleted by a later apply, once empty)
      ~ queue     shop.delay.30m  3 messages to be dead-lettered to exchange elsewhere, as before
    1 queue to create, 2 bindings to add, 2 bindings to take away; 1 retired queue is draining; no message is lost by it, but what waits in shop.delay.30m does not come out as the topology says
    ");
    let queue = broker.objects.queues.get_mut("shop.delay.30m").expect("there");
    queue.arguments.remove("x-dead-letter-exchange");
    insta::assert_snapshot!(plan(&small(), &broker), @r"
    Create
      + queue     shop.delay.30m.2  (classic, x-dead-letter-exchange=shop.dlx, x-message-ttl=1798000)
            replaces shop.delay.30m, which cannot be changed:
              x-dead-letter-exchange: broker has not set, topology wants shop.dlx
      + binding   shop.again -> shop.delay.30m.2  (30m.*)
      + binding   shop.in -> shop.delay.30m.2  (30m.*)
    Retire
      - binding   shop.again -> shop.delay.30m  (30m.*)
            shop.delay.30m.2 takes its place; it has 3 messages to be DROPPED by the broker when due, as before: the queue has no dead letter exchange
      - binding   shop.in -> shop.delay.30m  (30m.*)
            shop.delay.30m.2 takes its place; it has 3 messages to be DROPPED by the broker when due, as before: the queue has no dead letter exchange
    Draining (deleted by a later apply, once empty)
      ~ queue     shop.delay.30m  3 messages to be DROPPED by the broker when due, as before: the queue has no dead letter exchange
    1 queue to create, 2 bindings to add, 2 bindings to take away; 1 retired queue is draining; no message is lost by it, but what waits in shop.delay.30m does not come out as the topology says
    ");
    let queue = broker.objects.queues.get_mut("shop.delay.30m").expect("there");
    queue.arguments.remove("x-message-ttl");
    insta::assert_snapshot!(plan(&small(), &broker), @r"
    Create
      + queue     shop.delay.30m.2  (classic, x-dead-letter-exchange=shop.dlx, x-message-ttl=1798000)
            replaces shop.delay.30m, which cannot be changed:
              x-dead-letter-exchange: broker has not set, topology wants shop.dlx
              x-message-ttl: broker has not set, topology wants 1798000
      + binding   shop.again -> shop.delay.30m.2  (30m.*)
      + binding   shop.in -> shop.delay.30m.2  (30m.*)
    Retire
      - binding   shop.again -> shop.delay.30m  (30m.*)
            shop.delay.30m.2 takes its place; it has 3 messages with no TTL to come out by
      - binding   shop.in -> shop.delay.30m  (30m.*)
            shop.delay.30m.2 takes its place; it has 3 messages with no TTL to come out by
    Draining (deleted by a later apply, once empty)
      ~ queue     shop.delay.30m  3 messages with no TTL to come out by
    1 queue to create, 2 bindings to add, 2 bindings to take away; 1 retired queue is draining; no message is lost by it, but what waits in shop.delay.30m does not come out as the topology says
    ");
}

/// A name that was mistaken gives nothing up, and is said.
#[test]
fn discarding_what_is_no_removed_timeouts() {
    for kept in ["shop.delay.1s", "shop.unpaid", "shop.parked", "other"] {
        let mut broker = Snapshot::of(&small());
        let mut queue = broker.objects.queues["shop.unpaid"].clone();
        queue.name = "other".to_owned();
        broker.objects.queues.insert("other".to_owned(), queue);
        let refused = diff(&without_unshipped(), &broker, &BTreeSet::from([kept.to_owned()]));
        assert_eq!(refused.refusals, [Refusal::Kept { queue: kept.to_owned() }], "{refused}");
    }
    let discard = BTreeSet::from(["shop.unpaid".to_owned()]);
    insta::assert_snapshot!(diff(&small(), &Snapshot::of(&small()), &discard), @r"
    Refused
      ! queue     shop.unpaid was named with --discard
            only the queue of a timeout that is no longer in the topology can be discarded, and this queue is not one
    1 refusal; nothing is carried out
    ");
}

/// Seconds of lead are of no interest to who waits for minutes.
#[test]
fn how_long_a_queue_drains_is_rounded_up() {
    let exact = ["750ms", "9999ms", "10001ms", "58500ms", "599500ms", "600001ms", "1798s"];
    let said = exact.map(|within| {
        let drains = Drains::WhenDue { within: within.parse().expect("a TTL") };
        let line = Draining { queue: String::new(), messages: None, drains }.to_string();
        line.rsplit(' ').next().map(str::to_owned)
    });
    let rounded = ["750ms", "9999ms", "11s", "59s", "10m", "11m", "30m"];
    assert_eq!(said, rounded.map(|it| Some(it.to_owned())));
}
