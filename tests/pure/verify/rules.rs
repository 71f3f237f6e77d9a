//! Rules about objects: what a topology becomes keeps them all, and each change that breaks one is found.

use std::collections::BTreeMap;

use overdue::internals::{
    diagnostic::{Diagnostic, Target},
    objects::{Argument, Binding, Exchange, Objects, Queue},
    plan::Snapshot,
    topology::{Topology, file::QueueType},
    verify::{self, findings},
};
use proptest::prelude::*;

use super::NOW;
use crate::{
    broker_model::{applied, plan},
    generate,
    samples::WITHOUT_FINDINGS,
};

fn topology() -> Topology {
    Topology::parse(WITHOUT_FINDINGS).expect("the good file")
}

fn good() -> Objects {
    topology().objects()
}

fn check(objects: &Objects) -> Vec<Diagnostic> {
    verify::check(&topology(), objects)
}

fn queue<'a>(objects: &'a mut Objects, name: &str) -> &'a mut Queue {
    objects.queues.get_mut(name).expect("a queue of the topology")
}

fn exchange<'a>(objects: &'a mut Objects, name: &str) -> &'a mut Exchange {
    objects.exchanges.get_mut(name).expect("an exchange of the topology")
}

fn argument(objects: &mut Objects, name: &str, key: &str, value: &str) {
    queue(objects, name).arguments.insert(key.to_owned(), value.into());
}

fn binding(objects: &Objects, source: &str, destination: &str, routing_key: &str) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue: objects.queues.contains_key(destination),
        routing_key: routing_key.to_owned(),
        arguments: BTreeMap::new(),
    }
}

fn bind(objects: &mut Objects, source: &str, destination: &str, routing_key: &str) {
    let binding = binding(objects, source, destination, routing_key);
    objects.bindings.insert(binding);
}

fn unbind(objects: &mut Objects, destination: &str) {
    objects
        .bindings
        .retain(|binding| binding.destination != destination || binding.mark_of().is_some());
}

/// An exchange of somebody else.
fn foreign(objects: &mut Objects, name: &str, kind: &str) {
    let exchange = Exchange {
        name: name.to_owned(),
        kind: kind.to_owned(),
        durable: true,
        auto_delete: false,
        internal: false,
        arguments: BTreeMap::new(),
    };
    objects.exchanges.insert(name.to_owned(), exchange);
}

/// A finding as people read it.
fn text(finding: &Diagnostic) -> String {
    let found = finding.rendered(&Target { topology: "orders", virtual_host: "shop" });
    let [reason, fix] = [found.reason, found.fix].map(Option::unwrap_or_default);
    format!("{} {}: {}\n  {reason}\n  {fix}", found.rule, found.subject, found.message)
}

fn about(found: &[Diagnostic]) -> Vec<String> {
    found.iter().map(|found| format!("{} {}", found.rule, found.subject)).collect()
}

/// One finding, of that rule, about that object.
fn one(objects: &Objects, expected: &str) -> String {
    let found = check(objects);
    assert_eq!(about(&found), [expected], "{found:#?}");
    text(&found[0])
}

proptest! {
    /// No file leads to a cycle, an exchange without an alternate, a key that leads nowhere or to several queues.
    #[test]
    fn every_topology_keeps_every_rule(topology in generate::topology()) {
        prop_assert_eq!(verify::check(&topology, &topology.objects()), []);
    }

    /// Whichever level due messages are led back into, it is found.
    #[test]
    fn every_way_back_is_found(topology in generate::topology(), level: prop::sample::Index) {
        let mut objects = topology.objects();
        let level = topology.delay_queue(level.get(&topology.levels));
        bind(&mut objects, &topology.due_exchange(), &level, "#");
        let found = about(&verify::check(&topology, &objects));
        let cycle = format!("dead-letter-cycle queue {level}");
        prop_assert!(found.contains(&cycle), "{:#?}", found);
    }
}

#[test]
fn a_level_that_leads_back_to_itself() {
    let mut objects = good();
    bind(&mut objects, "orders.dlx", "orders.delay.5m", "5m.again");
    insta::assert_snapshot!(one(&objects, "dead-letter-cycle queue orders.delay.5m"));
}

/// Makes a level dead-letter into another one.
fn lead(objects: &mut Objects, from: &str, to: &str, routing_key: &str) {
    let via = format!("orders.via.{from}");
    foreign(objects, &via, "topic");
    argument(objects, &format!("orders.delay.{from}"), "x-dead-letter-exchange", &via);
    bind(objects, &via, &format!("orders.delay.{to}"), routing_key);
}

fn cycles(objects: &Objects) -> Vec<Diagnostic> {
    let mut found = check(objects);
    found.retain(|found| found.rule == "dead-letter-cycle");
    found
}

#[test]
fn a_cycle_of_several_levels_is_reported_once() {
    let mut objects = good();
    for (from, to) in [("5s", "30s"), ("30s", "5m"), ("5m", "5s")] {
        lead(&mut objects, from, to, "#");
    }
    let found = cycles(&objects);
    assert_eq!(found.len(), 1, "{found:#?}");
    let path = "orders.delay.30s -> orders.delay.5m -> orders.delay.5s -> orders.delay.30s";
    assert!(found[0].message.contains(path), "{found:#?}");
}

/// Reject, wait, come back: RabbitMQ allows it, and so do we.
#[test]
fn a_cycle_with_a_consumer_in_it_is_none() {
    let mut objects = good();
    argument(&mut objects, "orders.unpaid", "x-dead-letter-exchange", "orders.in");
    assert_eq!(check(&objects), []);
}

/// What goes on to the next level has another key than what comes back.
#[test]
fn a_circle_that_no_key_goes_round_is_no_cycle() {
    let cycles = |back: &str| {
        let mut objects = good();
        lead(&mut objects, "5s", "30s", "5s.#");
        lead(&mut objects, "30s", "5s", back);
        cycles(&objects).len()
    };
    assert_eq!(cycles("1h.#"), 0);
    assert_eq!(cycles("#.unpaid"), 1);
}

/// Through an exchange whose type does not say what it routes: it is possible.
#[test]
fn a_cycle_through_headers_and_alternate_exchanges() {
    let mut objects = good();
    foreign(&mut objects, "legacy", "headers");
    bind(&mut objects, "orders.dlx", "legacy", "#");
    exchange(&mut objects, "legacy")
        .arguments
        .insert("alternate-exchange".into(), "orders.in".into());
    assert_eq!(cycles(&objects).len(), 1);
}

#[test]
fn a_due_exchange_without_an_alternate() {
    let mut objects = good();
    exchange(&mut objects, "orders.dlx").arguments.clear();
    insta::assert_snapshot!(one(&objects, "alternate-exchange exchange orders.dlx"));
}

#[test]
fn an_entry_without_an_alternate() {
    let mut objects = good();
    exchange(&mut objects, "orders.in").arguments.clear();
    insta::assert_snapshot!(one(&objects, "alternate-exchange exchange orders.in"));
}

#[test]
fn an_alternate_that_is_not_there() {
    let mut objects = good();
    let dlx = exchange(&mut objects, "orders.dlx");
    dlx.arguments.insert("alternate-exchange".to_owned(), "orders.lost".into());
    insta::assert_snapshot!(one(&objects, "alternate-exchange exchange orders.dlx"));
}

#[test]
fn an_alternate_that_leads_nowhere() {
    let mut objects = good();
    unbind(&mut objects, "orders.parked");
    assert_eq!(
        about(&check(&objects)),
        [
            "alternate-exchange exchange orders.in",
            "alternate-exchange exchange orders.dlx",
            "routing-nowhere queue orders.unpaid",
        ]
    );
}

/// The broker asks an alternate exchange only where an exchange has no route, to whatever that leads.
#[test]
fn an_exchange_without_queues_that_hides_the_alternate() {
    let mut objects = good();
    foreign(&mut objects, "audit", "topic");
    bind(&mut objects, "orders.dlx", "audit", "#.unknown");
    insta::assert_snapshot!(one(&objects, "alternate-exchange exchange orders.dlx"));
    bind(&mut objects, "audit", "orders.unpaid", "#.unknown");
    assert_eq!(check(&objects), []);
}

#[test]
fn at_least_once_without_a_condition() {
    for missing in ["x-overflow", "x-dead-letter-strategy"] {
        let mut objects = good();
        queue(&mut objects, "orders.delay.5m").arguments.remove(missing);
        let text = one(&objects, "at-least-once queue orders.delay.5m");
        assert!(text.contains(missing), "{text}");
    }
    let mut objects = good();
    argument(&mut objects, "orders.unpaid", "x-overflow", "drop-head");
    insta::assert_snapshot!(one(&objects, "at-least-once queue orders.unpaid"));
}

#[test]
fn classic_queues_have_no_conditions() {
    let mut topology = topology();
    topology.queue_type = QueueType::Classic;
    assert_eq!(verify::check(&topology, &topology.objects()), []);
}

#[test]
fn a_timeout_that_nothing_is_bound_for() {
    let mut objects = good();
    unbind(&mut objects, "orders.unpaid");
    let found = check(&objects);
    assert_eq!(found.len(), 4, "none of the four levels leads to it: {found:#?}");
    assert!(found.iter().all(|found| found.rule == "routing-nowhere"));
    insta::assert_snapshot!(text(&found[0]));
}

#[test]
fn a_dead_letter_exchange_that_is_not_there() {
    let mut objects = good();
    argument(&mut objects, "orders.delay.5m", "x-dead-letter-exchange", "orders.gone");
    insta::assert_snapshot!(one(&objects, "routing-nowhere queue orders.delay.5m"));
}

#[test]
fn a_key_of_its_own_that_nobody_is_bound_for() {
    let mut objects = good();
    argument(&mut objects, "orders.delay.5m", "x-dead-letter-routing-key", "due");
    let text = one(&objects, "routing-nowhere queue orders.delay.5m");
    assert!(text.contains("with the routing key due to orders.parked"), "{text}");
}

/// The default exchange has every queue, by its name.
#[test]
fn dead_lettering_to_a_queue_by_name() {
    let mut objects = good();
    argument(&mut objects, "orders.delay.5m", "x-dead-letter-exchange", "");
    argument(&mut objects, "orders.delay.5m", "x-dead-letter-routing-key", "orders.unpaid");
    assert_eq!(check(&objects), []);
}

#[test]
fn two_queues_for_one_key() {
    let mut objects = good();
    bind(&mut objects, "orders.in", "orders.delay.5m", "30m.unpaid");
    insta::assert_snapshot!(one(&objects, "routing-overlap exchange orders.in"));
}

/// Shards share what one queue beside them gets again.
#[test]
fn a_queue_beside_the_shards_gets_each_message_again() {
    let text = |shards: &str| {
        format!(
            "name = \"orders\"\ndelay.levels = [\"1s\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\n{shards}"
        )
    };
    let topology = |shards| Topology::parse(&text(shards)).unwrap();
    let mut objects = topology("shards = 2").objects();
    let found = |objects: &Objects| {
        let found = verify::check(&topology("shards = 2"), objects);
        found.into_iter().map(|it| it.rule).collect::<Vec<_>>()
    };
    assert_eq!(found(&objects), [""; 0]);
    objects.queues.extend(topology("").objects().queues);
    bind(&mut objects, "orders.dlx", "orders.unpaid", "#.unpaid");
    assert_eq!(found(&objects), ["routing-overlap"]);
}

#[test]
fn a_queue_that_is_bound_twice_gets_a_message_once() {
    let mut objects = good();
    bind(&mut objects, "orders.dlx", "orders.unpaid", "30m.unpaid");
    assert_eq!(check(&objects), []);
}

/// Between exchanges too.
#[test]
fn an_exchange_on_the_way_is_followed() {
    let mut objects = good();
    unbind(&mut objects, "orders.unpaid");
    foreign(&mut objects, "hop", "topic");
    bind(&mut objects, "orders.dlx", "hop", "#.unpaid");
    bind(&mut objects, "hop", "orders.unpaid", "#.unpaid");
    assert_eq!(check(&objects), []);
}

/// What `verify` reports by other rules is not reported again: only what is left when that is put right.
#[test]
fn one_cause_is_reported_once() {
    let verify = |change: &dyn Fn(&mut Objects)| {
        let mut observed = Snapshot::of(&topology());
        change(&mut observed.objects);
        about(&findings(&topology(), &observed, &BTreeMap::new(), NOW))
    };
    let gone = verify(&|objects| unbind(objects, "orders.unpaid"));
    assert_eq!(gone, ["missing-binding queue orders.unpaid"]);
    let back = verify(&|objects| bind(objects, "orders.dlx", "orders.delay.5m", "#"));
    assert_eq!(back, ["additional-binding queue orders.delay.5m"]);
    let without = verify(&|objects| exchange(objects, "orders.in").arguments.clear());
    assert_eq!(without, ["changed-exchange exchange orders.in"]);
    let misdirected =
        verify(&|objects| argument(objects, "orders.delay.5m", "x-dead-letter-exchange", "gone"));
    assert_eq!(misdirected, ["changed-queue queue orders.delay.5m"]);
    let events = verify(&|objects| bind(objects, "orders.events", "orders.unpaid", "#"));
    assert_eq!(events, ["additional-binding queue orders.unpaid"]);
}

/// What others consume, and what has no mark, is not retired, so nobody unbinds it.
#[test]
fn a_replaced_queue_that_stays_bound_gets_copies() {
    let verify = |change: &dyn Fn(&mut Snapshot)| {
        let mut observed = Snapshot::of(&topology());
        let queue = observed.objects.queues.get_mut("orders.unpaid").unwrap();
        queue.arguments.insert("x-max-length".to_owned(), Argument::Integer(7));
        change(&mut observed);
        let planned = plan(&topology(), &observed);
        let observed = applied(&observed, &planned);
        about(&findings(&topology(), &observed, &BTreeMap::new(), NOW))
    };
    let copies = "additional-binding queue orders.unpaid";
    let consumed = verify(&|it| {
        it.foreign_consumers.insert("orders.unpaid".to_owned(), 1);
    });
    assert_eq!(consumed, [copies, "foreign-consumer queue orders.unpaid"]);
    let unmarked = verify(&|it| {
        it.objects
            .bindings
            .retain(|it| it.destination != "orders.unpaid" || it.mark_of().is_none());
    });
    assert_eq!(unmarked, [copies, "unmarked-queue queue orders.unpaid"]);
    let drains = verify(&|it| {
        it.messages.insert("orders.unpaid".to_owned(), 3);
    });
    assert_eq!(drains, ["draining queue orders.unpaid"]);
}

/// A generation that is retired and drains into an exchange that is not there.
#[test]
fn what_is_retired_is_looked_at() {
    let mut observed = Snapshot::of(&topology());
    let objects = &mut observed.objects;
    let mut old = objects.queues["orders.delay.5m"].clone();
    let mut new = old.clone();
    new.name = "orders.delay.5m.2".to_owned();
    old.arguments.insert("x-dead-letter-exchange".to_owned(), Argument::from("gone"));
    unbind(objects, "orders.delay.5m");
    objects.queues.insert(old.name.clone(), old);
    objects.queues.insert(new.name.clone(), new);
    bind(objects, "orders.in", "orders.delay.5m.2", "5m.*");
    bind(objects, "orders.again", "orders.delay.5m.2", "5m.*");
    bind(objects, "orders.owned", "orders.delay.5m.2", "delay/5m");
    observed.messages.insert("orders.delay.5m".to_owned(), 7);
    let found = findings(&topology(), &observed, &BTreeMap::new(), NOW);
    let expected = ["routing-nowhere queue orders.delay.5m", "draining queue orders.delay.5m"];
    assert_eq!(about(&found), expected);
    observed.messages.insert("orders.delay.5m".to_owned(), 0);
    let found = findings(&topology(), &observed, &BTreeMap::new(), NOW);
    assert_eq!(about(&found), ["retired-queue queue orders.delay.5m"], "empty: it is deleted");
}
