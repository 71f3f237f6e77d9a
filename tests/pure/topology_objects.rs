//! The objects a topology becomes, as they are read in review, and what each of them must have.

use std::fmt::Write as _;

use overdue::internals::{
    objects::{Argument, Objects, Queue},
    plan::Snapshot,
    topology::Topology,
};

use crate::broker_model::{dead_letter_exchange, plan, route, text};

const REPOSITORY: &str = include_str!("../../topology.toml");
const TINY: &str = r#"name = "tiny"
delay.levels = ["1s"]
timeout = [{ name = "late", after = "1s" }]
"#;

fn parse(text: &str) -> Topology {
    Topology::parse(text).expect("a good file")
}

fn classic() -> Topology {
    parse(&REPOSITORY.replace("type = \"quorum\"", "type = \"classic\""))
}

/// One line per object, everything in it.
fn describe(objects: &Objects) -> String {
    let mut out = String::new();
    for exchange in objects.exchanges.values() {
        let flags = format!("durable={} auto_delete={}", exchange.durable, exchange.auto_delete);
        let (name, kind, arguments) = (&exchange.name, &exchange.kind, &exchange.arguments);
        writeln!(out, "exchange {name} {kind} {flags} {arguments:?}").expect("a String");
    }
    for queue in objects.queues.values() {
        let Queue { name, kind, durable, auto_delete, exclusive, arguments } = queue;
        let flags = format!("durable={durable} auto_delete={auto_delete} exclusive={exclusive}");
        writeln!(out, "queue {name} {kind} {flags} {arguments:?}").expect("a String");
    }
    for binding in &objects.bindings {
        let to = if binding.to_queue { "queue" } else { "exchange" };
        let (source, destination, key) =
            (&binding.source, &binding.destination, &binding.routing_key);
        writeln!(out, "binding {source} -> {to} {destination} {key:?} {:?}", binding.arguments)
            .expect("a String");
    }
    out
}

#[test]
fn objects_of_the_repository() {
    insta::assert_snapshot!(describe(&parse(REPOSITORY).objects()));
}

#[test]
fn objects_on_classic_queues() {
    insta::assert_snapshot!(describe(&classic().objects()));
}

#[test]
fn objects_of_a_tiny_topology() {
    insta::assert_snapshot!(describe(&parse(TINY).objects()));
}

#[test]
fn plan_of_the_repository() {
    insta::assert_snapshot!(plan(&parse(REPOSITORY), &Snapshot::default()));
}

#[test]
fn plan_on_classic_queues() {
    insta::assert_snapshot!(plan(&classic(), &Snapshot::default()));
}

#[test]
fn plan_of_a_tiny_topology() {
    insta::assert_snapshot!(plan(&parse(TINY), &Snapshot::default()), @r"
    Create
      + exchange  tiny.owned  (direct)
      + exchange  tiny.park  (fanout)
      + queue     tiny.parked  (quorum, x-delivery-limit=-1)
      + binding   tiny.park -> tiny.parked
      + exchange  tiny.again  (topic)
      + exchange  tiny.dlx  (topic, alternate-exchange=tiny.park)
      + exchange  tiny.events  (topic)
      + queue     tiny.late  (quorum, x-dead-letter-exchange=tiny.park, x-dead-letter-strategy=at-least-once, x-delivery-limit=100, x-overflow=reject-publish)
      + binding   tiny.dlx -> tiny.late  (#.late)
      + queue     tiny.delay.1s  (quorum, x-dead-letter-exchange=tiny.dlx, x-dead-letter-strategy=at-least-once, x-message-ttl=750, x-overflow=reject-publish)
      + exchange  tiny.in  (topic, alternate-exchange=tiny.park)
      + binding   tiny.again -> tiny.delay.1s  (1s.*)
      + binding   tiny.in -> tiny.delay.1s  (1s.*)
    6 exchanges to create, 3 queues to create, 4 bindings to add; no message is lost
    ");
}

/// 32 unroutable messages stop a level for good; with an alternate exchange none is unroutable.
#[test]
fn whatever_is_published_or_dead_lettered_to_has_an_alternate_exchange() {
    for topology in [parse(REPOSITORY), classic(), parse(TINY)] {
        let objects = topology.objects();
        let park = topology.park_exchange();
        let published_to = [topology.entry_exchange()];
        let dead_lettered_to =
            objects.queues.keys().filter_map(|queue| dead_letter_exchange(&objects, queue));
        for exchange in dead_lettered_to.map(str::to_owned).chain(published_to) {
            let has = &objects.exchanges[&exchange].arguments;
            let expected = (exchange != park).then_some(park.as_str());
            assert_eq!(text(has.get("alternate-exchange")), expected, "{exchange}");
            let lost = route(&objects, &exchange, "no.such.key");
            assert_eq!(lost, Some([topology.parked_queue()].into()), "{exchange}");
        }
        // Workers are to hear that nothing takes what they put back.
        let (again, events) = (topology.again_exchange(), topology.events_exchange());
        assert_eq!(route(&objects, &again, "no.such.key"), Some([].into()));
        let mentioned = [park, topology.entry_exchange(), again, topology.due_exchange(), events];
        let mut there: Vec<&String> = objects.exchanges.keys().collect();
        // To the one of the marks nothing is published.
        there.retain(|exchange| {
            !mentioned.contains(exchange) && **exchange != topology.mark_exchange()
        });
        assert!(there.is_empty(), "does {there:?} need an alternate exchange? Say so here.");
    }
}

/// At-least-once needs all three arguments; without one the broker falls back to at-most-once.
#[test]
fn every_level_holds_at_least_once() {
    let topology = parse(REPOSITORY);
    let objects = topology.objects();
    for level in &topology.levels {
        let queue = &objects.queues[&topology.delay_queue(level)];
        let has = |argument: &str| text(queue.arguments.get(argument));
        assert_eq!(queue.kind, "quorum");
        assert!(queue.durable && !queue.auto_delete && !queue.exclusive, "{}", queue.name);
        assert_eq!(has("x-dead-letter-strategy"), Some("at-least-once"), "{}", queue.name);
        assert_eq!(has("x-overflow"), Some("reject-publish"), "{}", queue.name);
        assert_eq!(has("x-dead-letter-exchange"), Some("orders.dlx"), "{}", queue.name);
        let ttl = topology.lead.lets_go(level);
        let ttl_ms = i64::try_from(ttl.as_millis()).expect("below ten years");
        assert_eq!(queue.arguments.get("x-message-ttl"), Some(&Argument::Integer(ttl_ms)));
        // Publishing renews no `x-expires` lease; a routing key of its own would lose the timeout.
        for never in ["x-expires", "x-dead-letter-routing-key", "x-max-length"] {
            assert_eq!(queue.arguments.get(never), None, "{}", queue.name);
        }
    }
}

#[test]
fn business_queues_have_a_delivery_limit_and_a_way_out() {
    let text = REPOSITORY.replace("type = \"quorum\"", "type = \"quorum\"\ndelivery_limit = 7");
    for (topology, limit) in [(parse(REPOSITORY), 100), (parse(&text), 7)] {
        let queue = &topology.objects().queues["orders.unpaid"];
        assert_eq!(queue.arguments.get("x-delivery-limit"), Some(&Argument::Integer(limit)));
        assert_eq!(queue.arguments.get("x-dead-letter-exchange"), Some(&"orders.park".into()));
        assert_eq!(queue.arguments.get("x-dead-letter-strategy"), Some(&"at-least-once".into()));
        assert_eq!(queue.arguments.get("x-message-ttl"), None);
    }
}

/// Looking at a parked message any number of times must not drop it.
#[test]
fn the_parking_lot_keeps_everything() {
    let objects = parse(REPOSITORY).objects();
    let parked = &objects.queues["orders.parked"];
    assert_eq!(parked.arguments.get("x-delivery-limit"), Some(&Argument::Integer(-1)));
    assert_eq!(parked.arguments.len(), 1, "{:?}", parked.arguments);
}

#[test]
fn a_key_without_a_timeout_of_ours_is_parked_when_it_is_due() {
    let topology = parse(REPOSITORY);
    let objects = topology.objects();
    let waits = route(&objects, "orders.in", "30m.unknown");
    assert_eq!(waits, Some(["orders.delay.30m".to_owned()].into()));
    let due = route(&objects, "orders.dlx", "30m.unknown");
    assert_eq!(due, Some(["orders.parked".to_owned()].into()));
    let unknown_level = route(&objects, "orders.in", "31m.unpaid");
    assert_eq!(unknown_level, Some(["orders.parked".to_owned()].into()));
}

/// The retries of the worker enter the same way as everybody else.
#[test]
fn a_retry_comes_back_to_the_queue_it_left() {
    let topology = parse(REPOSITORY);
    let objects = topology.objects();
    let timeout = &topology.timeouts[0];
    assert!(!topology.retry.is_empty());
    for level in &topology.retry {
        let key = Topology::routing_key(level, timeout);
        assert_eq!(route(&objects, "orders.in", &key), Some([topology.delay_queue(level)].into()));
        assert_eq!(route(&objects, "orders.dlx", &key), Some(["orders.unpaid".to_owned()].into()));
    }
}
