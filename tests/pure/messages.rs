//! The messages that the program publishes, and the headers that it reads.

use std::time::Duration;

use jiff::Timestamp;
use lapin::types::{AMQPValue, ByteArray, DecimalValue, FieldArray, FieldTable};
use overdue::internals::{
    order::OrderId,
    topology::route::Route,
    wire::{DueNotice, Message, Properties, Received, attempt, canary_id, guarded},
};
use serde_json::json;

use crate::samples::two_timeouts;

/// A route to a queue, or to the plugin's exchange, which delays the message by `x_delay` milliseconds.
pub(crate) fn route(x_delay: Option<u32>) -> Route {
    Route {
        exchange: "orders.in".to_owned(),
        routing_key: "30m.unpaid".to_owned(),
        x_delay,
        holds: Duration::ZERO,
        early: Duration::ZERO,
        queues: Vec::new(),
    }
}

fn notice() -> DueNotice {
    let due_at = Some("2026-11-20T10:30:00Z".parse().expect("a time"));
    DueNotice { order_id: OrderId::parse("o-1").expect("an id"), due_at }
}

pub(crate) fn text(value: &str) -> AMQPValue {
    AMQPValue::LongString(value.into())
}

pub(crate) fn table(entries: &[(&str, AMQPValue)]) -> FieldTable {
    let mut table = FieldTable::default();
    for (key, value) in entries {
        table.insert((*key).into(), value.clone());
    }
    table
}

/// Exchange, key, id, content type and body.
fn parts(message: &Message) -> (&str, &str, &str, &str, &str) {
    let Message { exchange, routing_key, message_id, content_type, body, .. } = message;
    let content_type = content_type.as_deref().unwrap_or_default();
    (exchange, routing_key, message_id, content_type, std::str::from_utf8(body).expect("UTF-8"))
}

#[test]
fn a_notice_is_json_or_the_bare_order_id() {
    let (exchange, key, id) = ("orders.in", "30m.unpaid", "o-1@2026-11-20T10:30:00Z");
    let json = r#"{"due_at":"2026-11-20T10:30:00Z","order_id":"o-1"}"#;
    let message = Message::notice(route(None), &notice());
    assert_eq!(parts(&message), (exchange, key, id, "application/json", json));
    let message = Message::bare_order_id(route(None), &notice());
    assert_eq!(parts(&message), (exchange, key, id, "text/plain", "o-1"));
}

#[test]
fn an_event_says_what_happened_to_which_order_and_when() {
    let at = "2026-11-20T10:30:00.5Z".parse().expect("a time");
    let message = Message::event("orders.events".to_owned(), "order.closed", 7, "o-1", at);
    let body = r#"{"at":"2026-11-20T10:30:00.5Z","order_id":"o-1"}"#;
    let id = "7@1795170600500000/o-1";
    assert_eq!(parts(&message), ("orders.events", "order.closed", id, "application/json", body));
    assert!(message.needs_no_route, "nobody has to listen");
}

/// A worker acks a message with the header; a worker that does not know the header finds no order in the body.
#[test]
fn a_canary_is_known_by_its_header_and_is_no_notice() {
    let message = Message::canary(route(None), "c-1");
    let body = r#"{"canary":"c-1"}"#;
    assert_eq!(parts(&message), ("orders.in", "30m.unpaid", "c-1", "application/json", body));
    assert_eq!(message.headers, table(&[("x-overdue-canary", text("c-1"))]));
    assert_eq!(canary_id(&message.headers).as_deref(), Some("c-1"));
    assert!(DueNotice::decode(&message.body).is_err());
    for other in [FieldTable::default(), table(&[("x-overdue-canary", AMQPValue::Void)])] {
        assert_eq!(canary_id(&other), None);
    }
}

/// The plugin delays a message before it routes it, and would return each mandatory message.
#[test]
fn what_the_plugin_delays_has_its_header_and_needs_no_route() {
    let received = Received::default();
    let of = |route: Route| {
        [
            Message::notice(route.clone(), &notice()),
            Message::bare_order_id(route.clone(), &notice()),
            Message::canary(route.clone(), "c-1"),
            received.put_back(route.clone(), 1, 0),
            received.replayed(route),
        ]
    };
    for message in of(route(Some(5_000))) {
        let delay = message.headers.inner().get("x-delay");
        assert_eq!((delay, message.needs_no_route), (Some(&AMQPValue::LongLongInt(5_000)), true));
    }
    for message in of(route(None)) {
        assert_eq!((message.headers.inner().get("x-delay"), message.needs_no_route), (None, false));
    }
}

#[test]
fn a_parked_copy_keeps_its_routing_key_and_says_why_from_where_and_since_when() {
    let (topology, at) = (two_timeouts(), Timestamp::from_second(1_000).expect("a time"));
    let received = Received { routing_key: "30m.unpaid".into(), ..Received::default() };
    let copy = received.park(&topology, &topology.timeouts[1], "no reason", at);
    assert_eq!((&*copy.exchange, &*copy.routing_key), ("orders.park", "30m.unpaid"));
    let headers = [
        ("x-park-reason", text("no reason")),
        ("x-park-timeout", text("unshipped")),
        ("x-parked-at", AMQPValue::Timestamp(1_000)),
    ];
    assert_eq!(copy.headers, table(&headers));
    assert!(!copy.needs_no_route);
}

/// AMQP limits short strings; the client would panic.
#[test]
fn a_text_of_more_than_255_bytes_cannot_be_sent() {
    type Change = fn(&mut Message, String);
    let with = |change: Change, bytes| {
        let mut message = Message::notice(route(None), &notice());
        change(&mut message, "x".repeat(bytes));
        message.unencodable()
    };
    let changes: [(&str, Change); 9] = [
        ("exchange", |it, text| it.exchange = text),
        ("routing key", |it, text| it.routing_key = text),
        ("message-id", |it, text| it.message_id = text),
        ("content-type", |it, text| it.content_type = Some(text)),
        ("content-encoding", |it, text| it.properties.content_encoding = Some(text)),
        ("correlation-id", |it, text| it.properties.correlation_id = Some(text)),
        ("reply-to", |it, text| it.properties.reply_to = Some(text)),
        ("type", |it, text| it.properties.kind = Some(text)),
        ("app-id", |it, text| it.properties.app_id = Some(text)),
    ];
    for (name, change) in changes {
        assert_eq!(with(change, 255), None, "{name}");
        assert_eq!(with(change, 256), Some(format!("its {name} has 256 bytes, more than 255")));
    }
    assert_eq!(Message::default().unencodable(), None);
    let digits = with(|it, _| it.properties.expiration = Some("0".repeat(256)), 0);
    assert_eq!(digits.as_deref(), Some("its expiration has 256 bytes, more than 255"));
}

/// Tried on RabbitMQ 4.3.6: it closes the channel for any other value.
#[test]
fn what_ends_the_channel_of_its_publisher_is_not_sent() {
    let expires = |text: &str| {
        let expiration = Some(text.to_owned());
        let properties = Properties { expiration, ..Properties::default() };
        Message { properties, ..Message::default() }.unencodable()
    };
    for taken in ["0", "60000", "-0", "+5", "007", "18446744073709551615"] {
        assert_eq!(expires(taken), None, "{taken}");
    }
    for refused in ["", "-1", "abc", "5 ", "1.5", "18446744073709551616", "9".repeat(255).as_str()]
    {
        let said = format!("its expiration is {refused:?}, not a number of milliseconds");
        assert_eq!(expires(refused), Some(said));
    }
    let routes = |name, value| {
        Message { headers: table(&[(name, value)]), ..Message::default() }.unencodable()
    };
    for name in ["CC", "BCC"] {
        let array = AMQPValue::FieldArray(FieldArray::from(vec![text("other")]));
        assert_eq!(routes(name, array), None);
        assert_eq!(routes(name, text("other")), Some(format!("its header {name} is not an array")));
    }
}

/// Any client can write such a header.
#[test]
fn tries_are_read_as_they_are_written_and_a_forged_number_is_none() {
    let tries = |headers: &FieldTable| (attempt(headers), guarded(headers));
    let copy = |attempt, guarded| Received::default().put_back(route(None), attempt, guarded);
    for written in [(0, 0), (3, 0), (0, 2), (1_000_000, 1_000_000)] {
        assert_eq!(tries(&copy(written.0, written.1).headers), written);
    }
    // Clients write numbers in any size.
    for (number, read) in [
        (AMQPValue::LongInt(7), 7),
        (AMQPValue::LongLongInt(7), 7),
        (AMQPValue::LongUInt(7), 7),
        (AMQPValue::LongLongInt(1_000_001), 0),
        (AMQPValue::LongInt(-7), 0),
        (AMQPValue::LongLongInt(-1), 0),
        (text("3"), 0),
    ] {
        let headers = table(&[("x-attempt", number.clone()), ("x-guarded", number)]);
        assert_eq!(tries(&headers), (read, read));
    }
}

/// Two copies without an id are two messages, also of the same order: a return is matched by the id.
#[test]
fn a_copy_has_the_id_of_its_message_or_one_of_its_own() {
    let received = |body: &[u8]| Received { tag: 7, body: body.to_vec(), ..Received::default() };
    let id = |received: Received| received.replayed(route(None)).message_id;
    assert_eq!(id(Received { message_id: Some("m-1".into()), ..received(b"o-1") }), "m-1");
    assert_eq!(id(received(b"o-1")), "o-1#7");
    assert_eq!(id(Received { tag: 8, ..received(b"o-1") }), "o-1#8");
    assert_eq!(id(received(b"")), "message#7");
}

/// docs/wire.md: each value takes 64 bytes in addition to its text.
#[test]
fn a_delivery_takes_its_texts_and_64_bytes_for_each_value() {
    let array = FieldArray::from(vec![text("ab"), AMQPValue::Boolean(true)]);
    let cases = [
        (text("abc"), 64 + 3),
        (AMQPValue::ShortString("abcd".into()), 64 + 4),
        (AMQPValue::ByteArray(ByteArray::from(vec![0; 5])), 64 + 5),
        (AMQPValue::LongLongInt(1), 64),
        (AMQPValue::FieldArray(array), 64 + (64 + 2) + 64),
        (
            AMQPValue::FieldTable(table(&[("key", text("a")), ("k", AMQPValue::Void)])),
            64 + (3 + 64 + 1) + (1 + 64),
        ),
    ];
    let bytes = |headers: &[(&str, AMQPValue)]| {
        Received { headers: table(headers), body: vec![0; 1_000], ..Received::default() }.bytes()
    };
    assert_eq!(bytes(&[]), 1_000);
    for (value, takes) in &cases {
        assert_eq!(bytes(&[("name", value.clone())]), 1_000 + 4 + takes, "{value:?}");
    }
    let [(one, takes_one), (other, takes_other), ..] = &cases;
    let both = [("a", one.clone()), ("b", other.clone())];
    assert_eq!(bytes(&both), 1_000 + (1 + takes_one) + (1 + takes_other));
}

#[test]
fn headers_are_shown_as_json() {
    let shown = |value| {
        let received = Received { headers: table(&[("x", value)]), ..Received::default() };
        let [(name, shown)] = &received.shown_headers()[..] else { panic!("one header") };
        assert_eq!(name, "x");
        shown.clone()
    };
    let deaths = vec![
        AMQPValue::FieldTable(table(&[("count", AMQPValue::LongLongInt(1)), ("queue", text("a"))])),
        AMQPValue::Boolean(true),
    ];
    let decimal = DecimalValue { scale: 2, value: 123 };
    for (value, expected) in [
        (text("a \u{e4}"), json!("a \u{e4}")),
        (AMQPValue::LongInt(-7), json!(-7)),
        (AMQPValue::LongLongInt(7), json!(7)),
        (AMQPValue::ShortShortUInt(255), json!(255)),
        (AMQPValue::Double(1.5), json!(1.5)),
        (AMQPValue::DecimalValue(decimal), json!("123e-2")),
        (AMQPValue::ByteArray(b"a\xff".to_vec().into()), json!("a\u{fffd}")),
        (AMQPValue::Timestamp(0), json!("1970-01-01T00:00:00Z")),
        (AMQPValue::Timestamp(u64::MAX), json!(u64::MAX)),
        (AMQPValue::Void, json!(null)),
        (AMQPValue::FieldArray(deaths.into()), json!([{ "count": 1, "queue": "a" }, true])),
    ] {
        assert_eq!(shown(value), expected);
    }
    assert!(Received::default().shown_headers().is_empty());
}

/// An expiration would end the wait of a copy early, or remove it from the parking lot. RabbitMQ closes the channel of a publisher that
/// sets the address of a direct reply and waits for none; by AMQP 1.0 and MQTT such a message arrives.
#[test]
fn a_copy_keeps_its_properties_but_for_the_expiration_and_a_direct_reply() {
    let kept = Properties {
        content_encoding: Some("gzip".to_owned()),
        priority: Some(3),
        correlation_id: Some("c".to_owned()),
        reply_to: Some("answers".to_owned()),
        expiration: None,
        timestamp_s: Some(5),
        kind: Some("t".to_owned()),
        app_id: Some("shop".to_owned()),
        user_id: None,
    };
    let expiring = Properties { expiration: Some("1000".to_owned()), ..kept.clone() };
    let reply_to = Some("amq.rabbitmq.reply-to".to_owned());
    let direct = Properties { reply_to, ..kept.clone() };
    let topology = two_timeouts();
    for (properties, kept) in
        [(expiring, kept.clone()), (direct, Properties { reply_to: None, ..kept })]
    {
        let received = Received { properties: Some(Box::new(properties)), ..Received::default() };
        for copy in [
            received.put_back(route(None), 1, 0),
            received.replayed(route(None)),
            received.park(&topology, &topology.timeouts[0], "why", Timestamp::UNIX_EPOCH),
        ] {
            assert_eq!(copy.properties, kept);
        }
    }
}
