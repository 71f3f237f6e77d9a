//! An object that exists with other properties: a queue gets a new generation, an exchange is refused; both
//! with every difference and both values.

use overdue::internals::{
    objects::{Argument, Binding, Exchange, Objects, Queue},
    plan::{Change, Contents, Difference, Reason, Refusal, Replaced, Snapshot, Step},
    topology::Topology,
};

use crate::broker_model::{empty_queues, plan};

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

/// The repository's topology with one queue changed.
fn with_queue(name: &str, change: &dyn Fn(&mut Queue)) -> Objects {
    let mut observed = topology().objects();
    change(observed.queues.get_mut(name).expect("there"));
    observed
}

/// The plan for a broker whose queue differs in one way replaces exactly that queue, and says why.
fn assert_replaced(observed: &Objects, name: &str, expected: &Difference) {
    let broker = empty_queues(observed.clone());
    let plan = plan(&topology(), &broker);
    assert_eq!((&plan.refusals[..], &plan.draining[..]), (&[][..], &[][..]), "{plan}");
    assert_eq!(plan.lost(), 0, "{plan}");
    let desired = topology().objects();
    let generation = format!("{name}.2");
    // The mark comes with the new queue and goes with the old one.
    let into_old = |binding: &&Binding| binding.destination == name && binding.mark_of().is_none();
    let mut changes = vec![Change::CreateQueue(Queue {
        name: generation.clone(),
        ..desired.queues[name].clone()
    })];
    changes.extend(desired.bindings.iter().filter(into_old).map(|binding| {
        Change::Bind(Binding { destination: generation.clone(), ..binding.clone() })
    }));
    changes.extend(desired.bindings.iter().filter(into_old).cloned().map(Change::Unbind));
    changes.push(Change::DeleteQueue { queue: name.to_owned(), lost: 0 });
    let planned: Vec<Change> = plan.steps.iter().map(|step| step.change.clone()).collect();
    assert_eq!(planned, changes, "{plan}");
    let replaced = Replaced { queue: name.to_owned(), differences: vec![expected.clone()] };
    assert_eq!(plan.steps[0].reason, Reason::Replaces(replaced));
    assert!(!plan.steps[0].adds(), "a worker may not do that by itself");
}

#[test]
fn each_argument_of_each_queue_is_compared() {
    for (name, queue) in topology().objects().queues {
        for (argument, wanted) in &queue.arguments {
            let other = Argument::Integer(77);
            let observed = with_queue(&name, &|queue| {
                queue.arguments.insert(argument.clone(), other.clone());
            });
            assert_replaced(&observed, &name, &difference(argument, Some(wanted), Some(&other)));
            let observed = with_queue(&name, &|queue| {
                queue.arguments.remove(argument);
            });
            assert_replaced(&observed, &name, &difference(argument, Some(wanted), None));
        }
        let extra = Argument::Integer(60_000);
        let observed = with_queue(&name, &|queue| {
            queue.arguments.insert("x-expires".to_owned(), extra.clone());
        });
        assert_replaced(&observed, &name, &difference("x-expires", None, Some(&extra)));
    }
}

#[test]
fn each_property_of_each_queue_is_compared() {
    let flag = |property, desired, observed| {
        difference(property, Some(&Argument::Flag(desired)), Some(&Argument::Flag(observed)))
    };
    for name in topology().objects().queues.keys() {
        let kind = difference("type", Some(&"quorum".into()), Some(&"classic".into()));
        let observed = with_queue(name, &|queue| queue.kind = "classic".to_owned());
        assert_replaced(&observed, name, &kind);
        let observed = with_queue(name, &|queue| queue.durable = false);
        assert_replaced(&observed, name, &flag("durable", true, false));
        let observed = with_queue(name, &|queue| queue.auto_delete = true);
        assert_replaced(&observed, name, &flag("auto-delete", false, true));
        let observed = with_queue(name, &|queue| queue.exclusive = true);
        assert_replaced(&observed, name, &flag("exclusive", false, true));
    }
}

/// The plan for a broker whose exchange differs is refused, with exactly that difference.
fn assert_refused(observed: &Objects, name: &str, expected: &Difference) {
    let plan = plan(&topology(), &empty_queues(observed.clone()));
    assert_eq!(plan.steps, [], "{name}, {}", expected.property);
    let differences = vec![expected.clone()];
    let refusal = Refusal::Exchange { exchange: name.to_owned(), differences, may_hold: false };
    assert_eq!(plan.refusals, [refusal]);
    assert!(!plan.is_empty(), "a refusal is no `no change`");
}

#[test]
fn each_property_of_each_exchange_is_compared() {
    let flag = |property, desired, observed| {
        difference(property, Some(&Argument::Flag(desired)), Some(&Argument::Flag(observed)))
    };
    for (name, exchange) in &topology().objects().exchanges {
        let with = |change: &dyn Fn(&mut Exchange)| {
            let mut observed = topology().objects();
            change(observed.exchanges.get_mut(name).expect("there"));
            observed
        };
        let kind =
            difference("type", Some(&exchange.kind.as_str().into()), Some(&"headers".into()));
        assert_refused(&with(&|exchange| exchange.kind = "headers".to_owned()), name, &kind);
        let observed = with(&|exchange| exchange.durable = false);
        assert_refused(&observed, name, &flag("durable", true, false));
        let observed = with(&|exchange| exchange.auto_delete = true);
        assert_refused(&observed, name, &flag("auto-delete", false, true));
        let key = "alternate-exchange";
        let other = Argument::from("elsewhere");
        let observed =
            with(&|exchange| drop(exchange.arguments.insert(key.to_owned(), other.clone())));
        assert_refused(
            &observed,
            name,
            &difference(key, exchange.arguments.get(key), Some(&other)),
        );
    }
}

/// What a worker may do by itself: a table of every kind of step.
#[test]
fn what_a_worker_may_do_only_adds() {
    let topology = topology();
    let first = plan(&topology, &Snapshot::default());
    assert!(first.steps.iter().all(Step::adds));
    let step = |change: Change, reason: Reason| Step { change, reason };
    let objects = topology.objects();
    let exchange = objects.exchanges["orders.in"].clone();
    let queue = objects.queues["orders.unpaid"].clone();
    let binding = objects.bindings.first().expect("bindings").clone();
    let delete = |lost| Change::DeleteQueue { queue: "orders.unpaid".to_owned(), lost };
    let replaces = Replaced { queue: "orders.unpaid".to_owned(), differences: Vec::new() };
    let replaces = Reason::Replaces(replaces);
    let removed = Reason::TimeoutRemoved { contents: Contents::Empty };
    // Step, whether it adds.
    let table = [
        (step(Change::CreateExchange(exchange), Reason::Missing), true),
        (step(Change::CreateQueue(queue.clone()), Reason::Missing), true),
        (step(Change::CreateQueue(queue), replaces), false),
        (step(Change::Bind(binding.clone()), Reason::Missing), true),
        (step(Change::Unbind(binding), removed), false),
        (step(delete(0), Reason::RetiredAndEmpty), false),
        (step(delete(3), Reason::Discarded), false),
    ];
    for (step, adds) in table {
        assert_eq!(step.adds(), adds, "{step}");
    }
}
