//! The objects of a topology, as a text for reviews, and the rules for each of them.

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

/// Prints each object, with all properties, as a line.
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
fn objects_of_quorum_and_classic_queues() {
    let [quorum, classic] = [parse(REPOSITORY), classic()].map(|it| describe(&it.objects()));
    insta::assert_snapshot!(format!("# quorum\n{quorum}\n# classic\n{classic}"));
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
        // Workers must learn that no level takes a requeued notice.
        let (again, events) = (topology.again_exchange(), topology.events_exchange());
        assert_eq!(route(&objects, &again, "no.such.key"), Some([].into()));
        let mentioned = [park, topology.entry_exchange(), again, topology.due_exchange(), events];
        let mut there: Vec<&String> = objects.exchanges.keys().collect();
        // No message is published to the exchange of the marks.
        there.retain(|exchange| {
            !mentioned.contains(exchange) && **exchange != topology.mark_exchange()
        });
        assert!(there.is_empty(), "does {there:?} need an alternate exchange? Say so here.");
    }
}

/// The queue has the file's delivery limit; reading a parked message any number of times does not drop it.
#[test]
fn delivery_limits() {
    let text = REPOSITORY.replace("type = \"quorum\"", "type = \"quorum\"\ndelivery_limit = 7");
    let objects = parse(&text).objects();
    for (queue, limit) in [("orders.unpaid", 7), ("orders.parked", -1)] {
        let limits = objects.queues[queue].arguments.get("x-delivery-limit");
        assert_eq!(limits, Some(&Argument::Integer(limit)), "{queue}");
    }
    assert_eq!(objects.queues["orders.parked"].arguments.len(), 1);
}
