//! An object that exists with other properties: named, with every difference and both values.

use overdue::{
    plan::{Difference, diff::diff},
    topology::{
        Topology,
        objects::{Argument, Objects},
    },
};

fn topology() -> Topology {
    Topology::parse(include_str!("../../topology.toml")).expect("the repository's file is good")
}

fn difference(
    property: &str,
    desired: Option<&Argument>,
    observed: Option<&Argument>,
) -> Difference {
    Difference {
        property: property.to_owned(),
        desired: desired.cloned(),
        observed: observed.cloned(),
    }
}

/// The plan for a broker that differs in one way has one conflict that says exactly that.
fn assert_conflict(observed: &Objects, object: &str, name: &str, expected: &Difference) {
    let plan = diff(&topology(), observed);
    assert_eq!(plan.changes, [], "{object} {name}, {}", expected.property);
    let [conflict] = &plan.conflicts[..] else {
        panic!("{object} {name}, {}: {:?}", expected.property, plan.conflicts)
    };
    assert_eq!((conflict.object, conflict.name.as_str()), (object, name));
    assert_eq!(conflict.differences, std::slice::from_ref(expected));
    assert!(!plan.is_empty(), "a conflict is no `no change`");
}

#[test]
fn each_argument_of_each_queue_is_compared() {
    let desired = topology().objects();
    for (name, queue) in &desired.queues {
        for (argument, wanted) in &queue.arguments {
            let other = Argument::Integer(77);
            let mut observed = desired.clone();
            let arguments = &mut observed.queues.get_mut(name).expect("there").arguments;
            arguments.insert(argument.clone(), other.clone());
            let expected = difference(argument, Some(wanted), Some(&other));
            assert_conflict(&observed, "queue", name, &expected);

            let mut observed = desired.clone();
            observed.queues.get_mut(name).expect("there").arguments.remove(argument);
            assert_conflict(&observed, "queue", name, &difference(argument, Some(wanted), None));
        }
        let extra = Argument::Integer(60_000);
        let mut observed = desired.clone();
        let arguments = &mut observed.queues.get_mut(name).expect("there").arguments;
        arguments.insert("x-expires".to_owned(), extra.clone());
        assert_conflict(&observed, "queue", name, &difference("x-expires", None, Some(&extra)));
    }
}

#[test]
fn each_property_of_each_queue_is_compared() {
    let desired = topology().objects();
    let flag = |property, desired, observed| {
        difference(property, Some(&Argument::Flag(desired)), Some(&Argument::Flag(observed)))
    };
    for name in desired.queues.keys() {
        let with = |change: fn(&mut overdue::topology::objects::Queue)| {
            let mut observed = desired.clone();
            change(observed.queues.get_mut(name).expect("there"));
            observed
        };
        let kind = difference("type", Some(&"quorum".into()), Some(&"classic".into()));
        assert_conflict(&with(|q| q.kind = "classic".to_owned()), "queue", name, &kind);
        let observed = with(|queue| queue.durable = false);
        assert_conflict(&observed, "queue", name, &flag("durable", true, false));
        let observed = with(|queue| queue.auto_delete = true);
        assert_conflict(&observed, "queue", name, &flag("auto-delete", false, true));
        let observed = with(|queue| queue.exclusive = true);
        assert_conflict(&observed, "queue", name, &flag("exclusive", false, true));
    }
}

#[test]
fn each_property_of_each_exchange_is_compared() {
    let desired = topology().objects();
    let flag = |property, desired, observed| {
        difference(property, Some(&Argument::Flag(desired)), Some(&Argument::Flag(observed)))
    };
    for (name, exchange) in &desired.exchanges {
        let with = |change: &dyn Fn(&mut overdue::topology::objects::Exchange)| {
            let mut observed = desired.clone();
            change(observed.exchanges.get_mut(name).expect("there"));
            observed
        };
        let kind = difference("type", Some(&exchange.kind.as_str().into()), Some(&"direct".into()));
        assert_conflict(&with(&|e| e.kind = "direct".to_owned()), "exchange", name, &kind);
        let observed = with(&|exchange| exchange.durable = false);
        assert_conflict(&observed, "exchange", name, &flag("durable", true, false));
        let observed = with(&|exchange| exchange.auto_delete = true);
        assert_conflict(&observed, "exchange", name, &flag("auto-delete", false, true));
        let key = "alternate-exchange";
        let other = Argument::from("elsewhere");
        let observed =
            with(&|exchange| drop(exchange.arguments.insert(key.to_owned(), other.clone())));
        let expected = difference(key, exchange.arguments.get(key), Some(&other));
        assert_conflict(&observed, "exchange", name, &expected);
    }
}

/// `"1800000"` is not `1800000`: the broker would refuse the declaration.
#[test]
fn a_number_written_as_text_is_a_difference() {
    let mut observed = topology().objects();
    let queue = observed.queues.get_mut("orders.delay.30m").expect("there");
    queue.arguments.insert("x-message-ttl".to_owned(), "1800000".into());
    assert_eq!(diff(&topology(), &observed).conflicts.len(), 1);
}

#[test]
fn a_conflict_names_the_queue_the_argument_and_both_values() {
    let mut observed = topology().objects();
    let queue = observed.queues.get_mut("orders.delay.30m").expect("there");
    queue.arguments.insert("x-message-ttl".to_owned(), Argument::Integer(60_000));
    insta::assert_snapshot!(diff(&topology(), &observed), @r"
      ! queue orders.delay.30m exists with other properties
          x-message-ttl: broker has 60000, topology wants 1800000
    to create: 0 exchanges, 0 queues, 0 bindings; in the way: 1
    ");
}

#[test]
fn every_difference_and_every_conflict_is_listed_beside_the_changes() {
    let mut observed = topology().objects();
    let queue = observed.queues.get_mut("orders.unpaid").expect("there");
    queue.kind = "classic".to_owned();
    queue.durable = false;
    queue.arguments.remove("x-overflow");
    queue.arguments.insert("x-max-length".to_owned(), Argument::Integer(10));
    queue.arguments.insert("x-odd".to_owned(), Argument::Other("[1,2]".to_owned()));
    let exchange = observed.exchanges.get_mut("orders.dlx").expect("there");
    exchange.arguments.clear();
    observed.queues.remove("orders.delay.1s");
    observed.bindings.retain(|binding| binding.destination != "orders.delay.1s");
    insta::assert_snapshot!(diff(&topology(), &observed), @r"
      + queue     orders.delay.1s  (quorum, x-dead-letter-exchange=orders.dlx, x-dead-letter-strategy=at-least-once, x-message-ttl=1000, x-overflow=reject-publish)
      + binding   orders.in -> orders.delay.1s  (1s.*)
      ! exchange orders.dlx exists with other properties
          alternate-exchange: broker has not set, topology wants orders.park
      ! queue orders.unpaid exists with other properties
          type: broker has classic, topology wants quorum
          durable: broker has false, topology wants true
          x-overflow: broker has not set, topology wants reject-publish
          x-max-length: broker has 10, topology wants not set
          x-odd: broker has [1,2], topology wants not set
    to create: 0 exchanges, 1 queues, 1 bindings; in the way: 2
    ");
}
