//! What is wrong with due notices as they were published.

use jiff::Timestamp;
use lapin::types::{AMQPValue, FieldTable};
use overdue::internals::{
    topology::{Topology, level_routes::LevelRoutes},
    verify::{Published, Seen},
    wire::{BODY_LEFT_OUT, Properties, Received},
};

use crate::samples::two_timeouts;

/// When all of them are published.
const NOW: &str = "2026-11-20T10:00:00Z";

const LADDER: &str = r#"
name = "orders"

[delay]
strategy = "ladder"
ladder = { max = "30d" }

[[timeout]]
name = "unpaid"
after = "30m"

[queues]
type = "classic"

[retry]
after = ["1s"]
"#;

/// As docs/wire.md has it.
fn good(key: &str, body: &str) -> Received {
    Received {
        exchange: "orders.in".into(),
        routing_key: key.into(),
        message_id: Some("4711@2026-11-20T10:30:00Z".into()),
        persistent: true,
        body: body.into(),
        ..Received::default()
    }
}

fn usual() -> Received {
    good("30m.unpaid", r#"{"order_id": 4711, "due_at": "2026-11-20T10:30:00Z"}"#)
}

fn on_the_ladder(place: &str, key: &str, body: &str) -> Received {
    Received { exchange: format!("orders.ladder.{place}").into(), ..good(key, body) }
}

fn with(properties: Properties) -> Received {
    Received { properties: Some(Box::new(properties)), ..usual() }
}

fn header(name: &str, value: &str) -> FieldTable {
    let mut headers = FieldTable::default();
    headers.insert(name.into(), AMQPValue::LongString(value.into()));
    headers
}

fn rules(topology: &Topology, message: &Received) -> Vec<&'static str> {
    let published = Published { topology, routes: &LevelRoutes::default() };
    assert!(published.is_notice(message), "{message:?}");
    let found = published.findings(message, NOW.parse::<Timestamp>().unwrap());
    found.into_iter().map(|finding| finding.rule).collect()
}

/// Each with one thing wrong, and what is found.
fn wrong() -> Vec<(Received, &'static str)> {
    let expiration = Properties { expiration: Some("1800000".into()), ..Properties::default() };
    let priority = Properties { priority: Some(9), ..Properties::default() };
    vec![
        (Received { persistent: false, ..usual() }, "not-persistent"),
        (Received { message_id: None, ..usual() }, "no-message-id"),
        (with(expiration), "expiration"),
        (with(priority), "priority"),
        (Received { headers: header("x-delay", "1800"), ..usual() }, "x-delay"),
        (Received { headers: header("x-opt-delivery-time", "1800"), ..usual() }, "delivery-time"),
        (good("30m.unpaid", "order 4711"), "unreadable"),
        (good("30m.unpaid", r#"{"id": 4711}"#), "unreadable"),
        (good("30min.unpaid", "4711"), "routing-key"),
        (good("30m.unpayed", "4711"), "routing-key"),
        (good("unpaid", "4711"), "routing-key"),
        (good("30m.unpaid", r#"{"order_id": 1, "due_at": "1970-01-21T18:12:00Z"}"#), "due-at"),
        (good("30m.unpaid", r#"{"order_id": 1, "due_at": "2026-11-20T10:10:00Z"}"#), "late"),
    ]
}

#[test]
fn each_rule_finds_what_it_is_for_and_nothing_else() {
    let topology = two_timeouts();
    for (message, rule) in wrong() {
        assert_eq!(rules(&topology, &message), [rule], "{message:?}");
    }
}

#[test]
fn nothing_is_found_in_a_notice_as_the_contract_has_it() {
    let topology = two_timeouts();
    let spring = Properties { priority: Some(0), ..Properties::default() };
    for message in [
        usual(),
        good("30m.unpaid", "4711"),
        with(spring),
        // A hint; the rest waits elsewhere.
        good("3s.unshipped", r#"{"order_id": 4711, "due_at": "2026-11-20T12:00:00Z"}"#),
        // Published again.
        good("1s.unpaid", r#"{"order_id": 4711, "due_at": "2026-11-20T09:59:58Z"}"#),
    ] {
        assert_eq!(rules(&topology, &message), Vec::<&str>::new(), "{message:?}");
    }
}

/// Their properties are not those that they were published with.
#[test]
fn a_body_that_was_left_out_is_all_that_is_found() {
    let headers = header(BODY_LEFT_OUT, "100000");
    let large = Received {
        exchange: "orders.in".into(),
        routing_key: "30m.unpaid".into(),
        headers,
        ..Received::default()
    };
    assert_eq!(rules(&two_timeouts(), &large), ["unreadable"]);
}

#[test]
fn seconds_in_the_place_of_milliseconds_are_found_on_a_ladder() {
    let topology = Topology::parse(LADDER).unwrap();
    let due = r#"{"order_id": 4711, "due_at": "2026-11-20T10:37:00Z"}"#;
    let soon = r#"{"order_id": 4711, "due_at": "2026-11-20T10:10:00Z"}"#;
    for (place, key, body, expected) in [
        // 37 min, and 2,220 ms.
        ("10m", "0.0.7.3.unpaid", due, &[][..]),
        ("1s", "2.unpaid", due, &["seconds"]),
        // 600 ms are not held at all.
        ("1s", "0.unpaid", soon, &["seconds"]),
        ("1s", "0.unpaid", "4711", &[]),
        // The usual 30 min, as 1,800 ms; 7 s are nobody's.
        ("1s", "1.unpaid", "4711", &["seconds"]),
        ("1s", "7.unpaid", "4711", &[]),
        ("1h", "0.0.0.0.1.unpaid", due, &["late"]),
    ] {
        assert_eq!(rules(&topology, &on_the_ladder(place, key, body)), expected, "{key} {body}");
    }
}

/// What workers and the broker send along the same exchanges.
#[test]
fn only_what_was_published_is_a_notice() {
    let topology = Topology::parse(LADDER).unwrap();
    let published = Published { topology: &topology, routes: &LevelRoutes::default() };
    let from = |exchange: &str| Received { exchange: exchange.into(), ..usual() };
    for exchange in ["orders.ladder.1s", "orders.ladder.10m", "shop.orders", "orders.in"] {
        assert!(published.is_notice(&from(exchange)), "{exchange}");
    }
    // Of the strategy `levels`.
    assert_eq!(rules(&topology, &usual()), ["routing-key"]);
    for exchange in ["orders.ladder.again", "orders.dlx", "orders.park", "orders.again"] {
        assert!(!published.is_notice(&from(exchange)), "{exchange}");
    }
    for of_ours in ["x-first-death-queue", "x-overdue-canary", "x-overdue-compat"] {
        let headers = header(of_ours, "it");
        let message = Received { headers, ..from("orders.ladder.1s") };
        assert!(!published.is_notice(&message), "{of_ours}");
    }
}

#[test]
fn a_level_that_the_broker_lacks_is_named() {
    let topology = two_timeouts();
    let routes = LevelRoutes::of_objects(&topology, &{
        let mut objects = topology.objects();
        objects.bindings.retain(|binding| binding.routing_key != "30m.*");
        objects
    });
    let published = Published { topology: &topology, routes: &routes };
    let found = published.findings(&usual(), NOW.parse().unwrap());
    assert_eq!(found.iter().map(|it| it.rule).collect::<Vec<_>>(), ["missing-level"]);
}

#[test]
fn the_answer_reads_like_this() {
    let topology = two_timeouts();
    let published = Published { topology: &topology, routes: &LevelRoutes::default() };
    let mut seen = Seen::default();
    for (message, _) in wrong().into_iter().chain([(usual(), ""), (wrong().remove(0).0, "")]) {
        let found = published.findings(&message, NOW.parse().unwrap());
        seen.add(&message, found);
    }
    let report = seen.report(&topology, "/");
    assert!(!report.is_ok());
    insta::assert_snapshot!(report);
    let nothing = Seen::default().report(&topology, "/");
    assert_eq!((nothing.is_ok(), nothing.summary()), (false, "NOT OK: nothing was published"));
}
