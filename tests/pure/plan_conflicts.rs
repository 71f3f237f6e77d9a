//! An object that exists with other properties: a queue gets a new generation, an exchange is refused; both
//! with every difference and both values.

use overdue::internals::{
    objects::{
        Argument, Binding, CONSISTENT_HASH, Exchange, Leaving, Objects, Queue, exchange_mark, mark,
    },
    plan::{
        Change, Contents, Difference, Note, Plan, Reason, Refusal, Replaced, Snapshot, Step,
        removal,
    },
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

/// `"1798000"` is not `1798000`: the broker would refuse the declaration.
#[test]
fn a_number_written_as_text_is_a_difference() {
    let name = "orders.delay.30m";
    let observed = with_queue(name, &|queue| {
        queue.arguments.insert("x-message-ttl".to_owned(), "1798000".into());
    });
    let (wanted, has) = (Argument::Integer(1_798_000), Argument::from("1798000"));
    assert_replaced(&observed, name, &difference("x-message-ttl", Some(&wanted), Some(&has)));
}

/// The newest generation that fits is taken, wherever it is; a new one gets the next number.
#[test]
fn generations_are_found_and_counted() {
    let topology = topology();
    let name = "orders.delay.30m";
    let fits = topology.objects().queues[name].clone();
    let other = Queue { kind: "classic".to_owned(), ..fits.clone() };
    let table: [(&[(&str, &Queue)], &str); 7] = [
        (&[], "orders.delay.30m"),
        (&[("", &fits)], "orders.delay.30m"),
        (&[("", &other)], "orders.delay.30m.2"),
        (&[("", &fits), (".2", &other)], "orders.delay.30m"),
        (&[(".2", &fits), (".3", &other)], "orders.delay.30m.2"),
        (&[(".2", &other), (".10", &other)], "orders.delay.30m.11"),
        (&[("", &other), (".02", &other), (".1", &other)], "orders.delay.30m.2"),
    ];
    for (there, expected) in table {
        let mut objects = topology.objects();
        objects.queues.remove(name);
        objects.bindings.retain(|binding| binding.destination != name);
        for (suffix, queue) in there {
            let name = format!("{name}{suffix}");
            objects.queues.insert(name.clone(), Queue { name, ..(*queue).clone() });
        }
        let plan = plan(&topology, &empty_queues(objects));
        let bound = plan.steps.iter().find_map(|step| match &step.change {
            Change::Bind(binding) => Some(binding.destination.as_str()),
            _ => None,
        });
        assert_eq!(bound, Some(expected), "{plan}");
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
    let removed = Reason::TimeoutRemoved { contents: Contents::Empty, in_levels: 0 };
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

/// A queue of somebody else that an exchange of ours feeds, and the other way round.
#[test]
fn what_only_shares_the_prefix_is_not_ours() {
    let topology = topology();
    let ours = topology.objects();
    let queue = |name: &str, dead_letters_to: Option<&str>| Queue {
        name: name.to_owned(),
        arguments: dead_letters_to
            .map(|exchange| ("x-dead-letter-exchange".to_owned(), exchange.into()))
            .into_iter()
            .collect(),
        ..ours.queues["orders.unpaid"].clone()
    };
    let foreign = [
        queue("orders.audit", None),
        queue("orders.audit.all", Some("orders.park")),
        queue("orders.delay.7s", None),
        queue("orders.delay.30m.audit", Some("orders.dlx")),
        queue("orders.delay.30m.parked", None),
        queue("orders.unpaid.2", None),
        queue("orders.parked.2", Some("orders.parked.park")),
        queue("orders.eu.unpaid", Some("orders.eu.park")),
        queue("ordersunpaid", Some("orders.park")),
    ];
    for queue in foreign {
        let mut objects = ours.clone();
        for source in ["orders.events", "orders.dlx", "orders.in"] {
            objects.bindings.insert(Binding {
                source: source.to_owned(),
                destination: queue.name.clone(),
                to_queue: true,
                routing_key: "#".to_owned(),
                arguments: [].into(),
            });
        }
        let name = queue.name.clone();
        objects.queues.insert(name.clone(), queue);
        assert_eq!(plan(&topology, &empty_queues(objects)), Plan::default(), "{name}");
    }
}

/// Marks of exchanges, and a second mark of one that leaves, are no queues.
#[test]
fn the_queues_of_another_topology_are_counted_once() {
    let text = crate::samples::LADDER.replace("\"orders\"", "\"shop\"");
    let other = Topology::parse(&text).expect("a good file");
    let mut broker = Snapshot::of(&other);
    let mark = mark("shop", "shop.unpaid").expect("a mark");
    broker.objects.bindings.insert(mark.leaving(Leaving { since_s: 1, acked: None }));
    let notes = plan(&topology(), &broker).notes;
    let queues = u64::try_from(other.objects().queues.len()).expect("few");
    assert_eq!(notes, [Note::Unused { topology: "shop".to_owned(), queues, messages: 0 }]);
}

/// What somebody else still publishes into a retired queue would be lost with it.
#[test]
fn a_retired_queue_that_somebody_else_feeds_stays() {
    let topology = topology();
    let mut objects = topology.objects();
    let name = "orders.delay.77s";
    objects.bindings.extend(mark("orders", name));
    let mut queue = objects.queues["orders.delay.30m"].clone();
    queue.name = name.to_owned();
    objects.queues.insert(name.to_owned(), queue);
    objects.bindings.insert(Binding {
        source: "shop".to_owned(),
        destination: name.to_owned(),
        to_queue: true,
        routing_key: "#".to_owned(),
        arguments: [].into(),
    });
    let plan = plan(&topology, &empty_queues(objects));
    assert_eq!(plan.steps, []);
    insta::assert_snapshot!(plan, @r"
    Draining (deleted by a later apply, once empty)
      ~ queue     orders.delay.77s  0 messages and more to come from exchange shop, which is not ours
    no change: the broker has this topology; 1 retired queue is draining
    ");
}

fn sharded(shards: &str) -> Topology {
    let timeout = "[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"";
    let text = format!("name = \"orders\"\ndelay.levels = [\"1s\"]\n{timeout}\n{shards}\n");
    Topology::parse(&text).unwrap()
}

/// Neither its name nor its type says whose it is.
#[test]
fn an_exchange_that_is_only_called_after_shards_is_left_alone() {
    let (topology, name) = (sharded(""), "orders.unpaid.shards");
    let unbinds = |kind: &str, is_marked: bool| {
        let mut broker = empty_queues(topology.objects());
        let Objects { exchanges, bindings, .. } = &mut broker.objects;
        let due = exchanges["orders.dlx"].clone();
        let exchange = Exchange { name: name.to_owned(), kind: kind.to_owned(), ..due };
        exchanges.insert(name.to_owned(), exchange);
        bindings.insert(Binding {
            source: "orders.dlx".to_owned(),
            destination: name.to_owned(),
            routing_key: "#.unpaid".to_owned(),
            ..Binding::default()
        });
        bindings.extend(exchange_mark("orders", name).filter(|_| is_marked));
        let plan = plan(&topology, &broker);
        plan.changes().any(|change| matches!(change, Change::Unbind(_)))
    };
    assert!(unbinds(CONSISTENT_HASH, true));
    for (kind, is_marked) in [(CONSISTENT_HASH, false), ("topic", true), ("topic", false)] {
        assert!(!unbinds(kind, is_marked), "{kind} {is_marked}");
    }
}

/// Their exchange goes after them, once nobody else is bound to it, and with the topology.
#[test]
fn an_exchange_of_former_shards_goes_with_them_unless_somebody_feeds_it() {
    let name = "orders.unpaid.shards";
    let mut broker = empty_queues(sharded("shards = 2").objects());
    let reason = |plan: &Plan| {
        let deletes = |it: &&Step| matches!(&it.change, Change::DeleteExchange { exchange } if exchange == name);
        plan.steps.iter().find(deletes).map(|it| it.reason.clone())
    };
    assert_eq!(reason(&plan(&sharded(""), &broker)), Some(Reason::RetiredAndEmpty));
    let removed = removal(&sharded("shards = 2"), &broker, false);
    assert_eq!(reason(&removed), Some(Reason::TopologyRemoved));
    broker.objects.bindings.insert(Binding {
        source: "legacy".to_owned(),
        destination: name.to_owned(),
        ..Binding::default()
    });
    let fed = plan(&sharded(""), &broker);
    assert_eq!(reason(&fed), None);
    let stays: Vec<String> = fed.retired_exchanges.iter().map(ToString::to_string).collect();
    assert_eq!(stays, ["~ exchange  orders.unpaid.shards  exchange legacy is bound to it"]);
}
