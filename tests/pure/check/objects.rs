//! Rules about objects: what a topology becomes keeps them all, and each change that breaks one is found.

use overdue::{
    objects::{Argument, Binding, Exchange, Objects, Queue},
    topology::{
        Topology,
        check::objects::{Defect, check},
        file::QueueType,
    },
};
use proptest::prelude::*;

use crate::{generate, samples::WITHOUT_FINDINGS};

fn good() -> Objects {
    Topology::parse(WITHOUT_FINDINGS).expect("the good file").objects()
}

fn queue<'a>(objects: &'a mut Objects, name: &str) -> &'a mut Queue {
    objects.queues.get_mut(name).expect("a queue of the topology")
}

fn exchange<'a>(objects: &'a mut Objects, name: &str) -> &'a mut Exchange {
    objects.exchanges.get_mut(name).expect("an exchange of the topology")
}

fn bind(objects: &mut Objects, source: &str, destination: &str, routing_key: &str) {
    let binding = Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue: objects.queues.contains_key(destination),
        routing_key: routing_key.to_owned(),
        arguments: std::collections::BTreeMap::new(),
    };
    objects.bindings.insert(binding);
}

fn unbind(objects: &mut Objects, destination: &str) {
    objects.bindings.retain(|binding| binding.destination != destination);
}

/// One defect, of that rule, about that object.
fn one(objects: &Objects, rule: &str, object: &str) -> String {
    let defects = check(objects);
    let [Defect { rule: found, object: about, message, help, .. }] = &defects[..] else {
        panic!("one defect, not {defects:#?}")
    };
    assert_eq!((*found, about.as_str()), (rule, object), "{message}");
    format!("{found}: {message}\n  {help}")
}

proptest! {
    /// No file leads to a cycle, an exchange without an alternate, a key that leads nowhere or twice somewhere.
    #[test]
    fn no_topology_has_a_defect(topology in generate::topology()) {
        prop_assert_eq!(check(&topology.objects()), []);
    }

    /// Whichever level due messages are led back into, it is found.
    #[test]
    fn every_way_back_is_found(topology in generate::topology(), level: prop::sample::Index) {
        let mut objects = topology.objects();
        let level = topology.delay_queue(level.get(&topology.levels));
        bind(&mut objects, &topology.due_exchange(), &level, "#");
        let defects = check(&objects);
        let mut cycles = defects.iter().filter(|defect| defect.rule == "dead-letter-cycle");
        prop_assert!(cycles.any(|defect| defect.object == level), "{:#?}", defects);
    }
}

#[test]
fn a_level_that_leads_back_to_itself() {
    let mut objects = good();
    bind(&mut objects, "orders.dlx", "orders.delay.5m", "5m.again");
    insta::assert_snapshot!(one(&objects, "dead-letter-cycle", "orders.delay.5m"));
}

#[test]
fn a_cycle_of_several_levels_is_told_once() {
    let mut objects = good();
    for (from, to) in [("5s", "30s"), ("30s", "5m"), ("5m", "5s")] {
        lead(&mut objects, from, to, "#");
    }
    let text = one(&objects, "dead-letter-cycle", "orders.delay.30s");
    assert!(
        text.contains("orders.delay.30s -> orders.delay.5m -> orders.delay.5s -> orders.delay.30s"),
        "{text}"
    );
}

/// Reject, wait, come back: RabbitMQ allows it, and so do we.
#[test]
fn a_cycle_with_a_consumer_in_it_is_none() {
    let mut objects = good();
    let entry = Argument::from("orders.in");
    let unpaid = queue(&mut objects, "orders.unpaid");
    unpaid.arguments.insert("x-dead-letter-exchange".to_owned(), entry);
    assert_eq!(check(&objects), []);
}

/// Makes a level dead-letter into another one.
fn lead(objects: &mut Objects, from: &str, to: &str, routing_key: &str) {
    let via = format!("orders.via.{from}");
    let mut exchange = objects.exchanges["orders.dlx"].clone();
    exchange.name.clone_from(&via);
    objects.exchanges.insert(via.clone(), exchange);
    let argument = Argument::from(via.as_str());
    let level = queue(objects, &format!("orders.delay.{from}"));
    level.arguments.insert("x-dead-letter-exchange".to_owned(), argument);
    bind(objects, &via, &format!("orders.delay.{to}"), routing_key);
}

/// What goes on to the next level has another key than what comes back.
#[test]
fn a_circle_that_no_key_goes_round_is_no_cycle() {
    let cycles = |back: &str| {
        let mut objects = good();
        lead(&mut objects, "5s", "30s", "5s.#");
        lead(&mut objects, "30s", "5s", back);
        let defects = check(&objects);
        defects.iter().filter(|defect| defect.rule == "dead-letter-cycle").count()
    };
    assert_eq!(cycles("1h.#"), 0);
    assert_eq!(cycles("#.unpaid"), 1);
}

#[test]
fn a_due_exchange_without_an_alternate() {
    let mut objects = good();
    exchange(&mut objects, "orders.dlx").arguments.clear();
    insta::assert_snapshot!(one(&objects, "alternate-exchange", "orders.dlx"));
}

#[test]
fn an_entry_without_an_alternate() {
    let mut objects = good();
    exchange(&mut objects, "orders.in").arguments.clear();
    insta::assert_snapshot!(one(&objects, "alternate-exchange", "orders.in"));
}

#[test]
fn an_alternate_that_is_not_there() {
    let mut objects = good();
    let dlx = exchange(&mut objects, "orders.dlx");
    dlx.arguments.insert("alternate-exchange".to_owned(), "orders.lost".into());
    insta::assert_snapshot!(one(&objects, "alternate-exchange", "orders.dlx"));
}

#[test]
fn an_alternate_that_leads_nowhere() {
    let mut objects = good();
    unbind(&mut objects, "orders.parked");
    let defects = check(&objects);
    let about: Vec<_> =
        defects.iter().map(|defect| (defect.rule, defect.object.as_str())).collect();
    assert_eq!(
        about,
        [
            ("alternate-exchange", "orders.dlx"),
            ("alternate-exchange", "orders.in"),
            ("alternate-exchange", "orders.park"),
            ("routing-nowhere", "orders.unpaid"),
        ]
    );
}

/// An event that nobody subscribes to is no loss.
#[test]
fn the_events_need_no_alternate() {
    assert!(good().exchanges["orders.events"].arguments.is_empty());
}

#[test]
fn at_least_once_without_a_condition() {
    for missing in ["x-overflow", "x-dead-letter-strategy"] {
        let mut objects = good();
        queue(&mut objects, "orders.delay.5m").arguments.remove(missing);
        let text = one(&objects, "at-least-once", "orders.delay.5m");
        assert!(text.contains(missing), "{text}");
    }
    let mut objects = good();
    let unpaid = queue(&mut objects, "orders.unpaid");
    unpaid.arguments.insert("x-overflow".to_owned(), "drop-head".into());
    insta::assert_snapshot!(one(&objects, "at-least-once", "orders.unpaid"));
}

#[test]
fn classic_queues_have_no_conditions() {
    let mut topology = Topology::parse(WITHOUT_FINDINGS).expect("the good file");
    topology.queue_type = QueueType::Classic;
    assert_eq!(check(&topology.objects()), []);
}

#[test]
fn a_timeout_that_nothing_is_bound_for() {
    let mut objects = good();
    unbind(&mut objects, "orders.unpaid");
    let defects = check(&objects);
    assert_eq!(defects.len(), 4, "each of the four levels leads nowhere: {defects:#?}");
    assert!(defects.iter().all(|defect| defect.rule == "routing-nowhere"));
    insta::assert_snapshot!(format!("{}\n  {}", defects[0].message, defects[0].help));
}

#[test]
fn a_dead_letter_exchange_that_is_not_there() {
    let mut objects = good();
    let level = queue(&mut objects, "orders.delay.5m");
    level.arguments.insert("x-dead-letter-exchange".to_owned(), "orders.gone".into());
    insta::assert_snapshot!(one(&objects, "routing-nowhere", "orders.delay.5m"));
}

#[test]
fn a_key_of_its_own_that_nobody_is_bound_for() {
    let mut objects = good();
    let level = queue(&mut objects, "orders.delay.5m");
    level.arguments.insert("x-dead-letter-routing-key".to_owned(), "due".into());
    let text = one(&objects, "routing-nowhere", "orders.delay.5m");
    assert!(text.contains("no binding for the routing keys due"), "{text}");
}

/// The default exchange has every queue, by its name.
#[test]
fn dead_lettering_to_a_queue_by_name() {
    let mut objects = good();
    let level = queue(&mut objects, "orders.delay.5m");
    level.arguments.insert("x-dead-letter-exchange".to_owned(), "".into());
    level.arguments.insert("x-dead-letter-routing-key".to_owned(), "orders.unpaid".into());
    assert_eq!(check(&objects), []);
}

#[test]
fn a_binding_to_nothing() {
    let mut objects = good();
    objects.queues.remove("orders.delay.5m");
    insta::assert_snapshot!(one(&objects, "routing-nowhere", "orders.delay.5m"));
}

#[test]
fn two_queues_for_one_key() {
    let mut objects = good();
    bind(&mut objects, "orders.in", "orders.delay.5m", "30m.unpaid");
    insta::assert_snapshot!(one(&objects, "routing-overlap", "orders.in"));
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
    let mut hop = objects.exchanges["orders.dlx"].clone();
    hop.name = "orders.hop".to_owned();
    objects.exchanges.insert(hop.name.clone(), hop);
    bind(&mut objects, "orders.dlx", "orders.hop", "#");
    bind(&mut objects, "orders.hop", "orders.unpaid", "#.unpaid");
    assert_eq!(check(&objects), []);
}
