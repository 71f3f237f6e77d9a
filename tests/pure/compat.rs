//! `[compat.x-delay]`: what it becomes, what it is worth to a plan, and what an `x-delay` is.

use std::time::Duration;

use lapin::types::{AMQPValue, ByteArray, FieldTable};
use overdue::internals::{
    objects::{Binding, Objects, route},
    plan::{Change, Plan, Snapshot},
    topology::{Topology, file::RoutingType, taken_over_exchange::XDelay},
    wire::{Delayed, Message, Properties, Received, x_delay},
};
use proptest::prelude::*;

use crate::{
    broker_model::{applied, empty_queues, much_later, plan},
    messages::{route as way, table, text},
    samples::LADDER,
};

const FILE: &str = r#"name = "orders"
delay.levels = ["1s", "30m", "60d"]
timeout = [{ name = "unpaid", after = "30m" }]
retry.after = ["1s"]
"#;
const COMPAT: &str = "[compat.x-delay]\nexchange = \"reminders\"\ntype = \"topic\"\n";

fn with_compat() -> Topology {
    Topology::parse(&format!("{FILE}{COMPAT}")).expect("a good file")
}

fn without() -> Topology {
    Topology::parse(FILE).expect("a good file")
}

#[test]
fn the_file_says_which_exchange_and_how_it_routes() {
    let wanted = XDelay { exchange: "reminders".to_owned(), routing: RoutingType::Topic };
    assert_eq!(with_compat().compat, Some(wanted));
    let direct = Topology::parse(&format!("{FILE}[compat.x-delay]\nexchange = \"r\"\n"));
    assert_eq!(direct.unwrap().compat.unwrap().routing, RoutingType::Direct);
}

#[test]
fn its_objects() {
    let (with, without) = (with_compat().objects(), without().objects());
    let mut lines: Vec<String> = Vec::new();
    for (name, exchange) in
        with.exchanges.iter().filter(|(it, _)| !without.exchanges.contains_key(*it))
    {
        lines.push(format!("exchange {name} {} {:?}", exchange.kind, exchange.arguments));
    }
    for (name, queue) in with.queues.iter().filter(|(it, _)| !without.queues.contains_key(*it)) {
        lines.push(format!("queue {name} {:?}", queue.arguments));
    }
    for it in with.bindings.difference(&without.bindings) {
        let Binding { source, destination, routing_key, arguments, .. } = it;
        lines.push(format!("binding {source} -> {destination} {routing_key:?} {arguments:?}"));
    }
    insta::assert_snapshot!(lines.join("\n"));
}

/// What the plugin routes at once is never kept: 60 days are more than an `x-delay` can be.
#[test]
fn a_level_that_no_x_delay_can_name_has_no_queue() {
    let queues: Vec<String> = with_compat().objects().queues.into_keys().collect();
    assert!(queues.contains(&"orders.compat.delay.30m".to_owned()), "{queues:?}");
    assert!(!queues.contains(&"orders.compat.delay.60d".to_owned()), "{queues:?}");
}

/// Every routing key, also one of the topology's own, comes to where the levels and the rest are, and to nothing else.
#[test]
fn whatever_is_published_to_the_old_name_is_delayed() {
    for (routing, key) in ["direct", "topic", "fanout", "headers"].into_iter().flat_map(|routing| {
        ["", "welcome", "30m.unpaid", "a.b.c.d.e", "compat"].map(|key| (routing, key))
    }) {
        let text = format!("{FILE}{COMPAT}").replace("\"topic\"", &format!("\"{routing}\""));
        let objects = Topology::parse(&text).unwrap().objects();
        let routed = route(&objects, "reminders", key);
        assert!(routed.missing.is_empty(), "{routed:?}");
        let wanted = ["orders.compat", "orders.compat.delay.1s", "orders.compat.delay.30m"];
        assert!(routed.queues.iter().eq(wanted), "{routing} {key}: {routed:?}");
    }
}

/// Stopped after any step, nothing that is published to the old name is lost.
#[test]
fn a_plan_that_stops_half_way_loses_nothing() {
    let (from, to) = (empty_queues(without().objects()), with_compat());
    let steps = plan(&to, &from).steps;
    assert!(steps.len() > 10);
    for done in 0..=steps.len() {
        let half = Plan { steps: steps[..done].to_vec(), ..Plan::default() };
        let objects: Objects = applied(&from, &half).objects;
        if objects.exchanges.contains_key("reminders") {
            let routed = route(&objects, "reminders", "welcome");
            assert!(routed.queues.contains("orders.compat"), "after {done} steps: {routed:?}");
        }
    }
}

/// Everything goes with the section, and what others have bound stays where it is.
#[test]
fn without_the_section_everything_of_it_goes() {
    let broker = gone(empty_queues(with_compat().objects()), &without());
    assert_eq!(broker.objects, without().objects());
}

/// The broker after some plans, if nothing waits there.
fn gone(mut broker: Snapshot, topology: &Topology) -> Snapshot {
    for _ in 0..8 {
        broker = much_later(broker);
        let next = plan(topology, &broker);
        assert!(next.refusals.is_empty(), "{next}");
        broker = applied(&broker, &next);
    }
    broker
}

/// Workers with the old file publish to both what they delay, and that may be on its way long before it is in `orders.compat`.
#[test]
fn where_workers_publish_what_they_delay_stays_as_long_as_their_queue() {
    let levels = "delay.levels = [\"1s\", \"30m\", \"60d\"]";
    let ladder = "delay.strategy = \"ladder\"\ndelay.ladder = { max = \"14d\" }";
    let ladder = FILE.replace(levels, ladder);
    for (file, waits_in) in [
        (FILE, "orders.delay.30m"),
        (FILE, "orders.compat.delay.30m"),
        (&*ladder, "orders.ladder.delay.10d"),
    ] {
        let read = |section| Topology::parse(&format!("{file}{section}")).expect("a good file");
        let (with, without) = (read(COMPAT), read(""));
        let mut broker = empty_queues(with.objects());
        assert_eq!(broker.messages.insert(waits_in.to_owned(), 1), Some(0), "{waits_in}");
        let first = plan(&without, &broker);
        let stay: Vec<String> = first.retired_exchanges.iter().map(ToString::to_string).collect();
        let wanted = ["due", "rest"].map(|it| {
            format!("~ exchange  orders.compat.{it}  queue orders.compat still leads to it")
        });
        assert_eq!(stay, wanted, "{first}");
        let mut broker = applied(&broker, &first);
        broker.messages.insert(waits_in.to_owned(), 0);
        assert_eq!(gone(broker, &without).objects, without.objects(), "{waits_in}");
    }
}

/// Then workers publish to neither.
#[test]
fn a_timeout_with_the_name_of_their_queue_keeps_no_exchange_of_theirs() {
    let after = Topology::parse(&FILE.replace("unpaid", "compat")).expect("a good file");
    let planned = plan(&after, &empty_queues(with_compat().objects()));
    assert_eq!(planned.retired_exchanges, [], "{planned}");
}

#[test]
fn an_exchange_of_the_plugin_in_its_place_is_refused() {
    let mut broker = empty_queues(without().objects());
    let mut old = with_compat().objects().exchanges["reminders"].clone();
    old.kind = "x-delayed-message".to_owned();
    broker.objects.exchanges.insert("reminders".to_owned(), old);
    let refused = plan(&with_compat(), &broker);
    assert_eq!(refused.refusals.len(), 1, "{refused}");
    assert!(!refused.changes().any(|it| matches!(it, Change::DeleteExchange { .. })), "{refused}");
}

#[test]
fn early_bindings_are_those_of_others() {
    let topology = with_compat();
    assert!(!topology.objects().bindings.iter().any(|it| topology.is_early(it)));
    let bound = |source: &str| Binding {
        source: source.to_owned(),
        destination: "mails".to_owned(),
        to_queue: true,
        routing_key: "welcome".to_owned(),
        arguments: std::collections::BTreeMap::new(),
    };
    assert!(topology.is_early(&bound("reminders")));
    assert!(topology.is_early(&Binding { to_queue: false, ..bound("reminders") }));
    assert!(!topology.is_early(&bound("orders.compat.due")));
    assert!(!without().is_early(&bound("reminders")));
}

fn header(value: AMQPValue) -> Option<u128> {
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), value);
    x_delay(&headers).map(|delay| delay.as_millis())
}

proptest! {
    /// In whatever width a number comes, it is the same delay.
    #[test]
    fn a_number_is_the_same_delay_in_every_width(ms in any::<i64>()) {
        let wanted = u64::try_from(ms).ok().filter(|ms| *ms > 0).map(u128::from);
        prop_assert_eq!(header(AMQPValue::LongLongInt(ms)), wanted);
        prop_assert_eq!(header(AMQPValue::LongString(ms.to_string().into())), wanted);
    }

    #[test]
    fn small_numbers_too(ms in any::<u8>()) {
        let wanted = (ms > 0).then(|| u128::from(ms));
        prop_assert_eq!(header(AMQPValue::ShortShortUInt(ms)), wanted);
        prop_assert_eq!(header(AMQPValue::ShortInt(ms.into())), wanted);
        prop_assert_eq!(header(AMQPValue::ShortUInt(ms.into())), wanted);
        prop_assert_eq!(header(AMQPValue::LongInt(ms.into())), wanted);
        prop_assert_eq!(header(AMQPValue::LongUInt(ms.into())), wanted);
        prop_assert_eq!(header(AMQPValue::Float(f32::from(ms) + 0.9)), wanted);
        prop_assert_eq!(header(AMQPValue::Double(f64::from(ms) + 0.9)), wanted);
        prop_assert_eq!(header(AMQPValue::ByteArray(ByteArray::from(ms.to_string().into_bytes()))), wanted);
    }

    /// What is not a number is none, and does no harm.
    #[test]
    fn no_text_is_taken_for_something_else(text in ".*") {
        let wanted = text.bytes().all(|it| it.is_ascii_digit()).then(|| text.parse::<i64>().ok());
        let wanted = wanted.flatten().filter(|ms| *ms > 0).map(|ms| u128::from(ms.cast_unsigned()));
        prop_assert_eq!(header(AMQPValue::LongString(text.as_str().into())), wanted);
    }
}

#[test]
fn what_the_plugin_routes_at_once_is_no_delay() {
    let longest = u32::MAX;
    for value in [
        AMQPValue::ShortShortInt(120),
        AMQPValue::Boolean(true),
        AMQPValue::Void,
        AMQPValue::Timestamp(300),
        AMQPValue::FieldTable(FieldTable::default()),
        AMQPValue::Double(f64::NAN),
        AMQPValue::Double(f64::INFINITY),
        AMQPValue::Double(-1.0),
        AMQPValue::Double(0.9),
        AMQPValue::LongString("99999999999999999999".into()),
    ] {
        assert_eq!(header(value.clone()), None, "{value:?}");
    }
    assert_eq!(x_delay(&FieldTable::default()), None);
    for value in [
        AMQPValue::LongUInt(longest),
        AMQPValue::LongLongInt(longest.into()),
        AMQPValue::Double(longest.into()),
        AMQPValue::LongString("4294967295".into()),
    ] {
        assert_eq!(header(value.clone()), Some(4_294_967_295), "{value:?}");
    }
}

/// What is longer than the plugin takes waits in a ladder that goes so far; elsewhere it comes out at once, and the log names it.
#[test]
fn a_delay_above_the_limit_of_the_plugin() {
    let days = |days: u64| Duration::from_hours(24 * days);
    let ladder = |max: &str| {
        let text = LADDER.replace("max = \"30d\"", &format!("max = \"{max}\"")) + COMPAT;
        Topology::parse(&text).unwrap().longest_x_delay()
    };
    let plugins = Duration::from_millis(u32::MAX.into());
    assert_eq!([ladder("30d"), ladder("90d")], [plugins, days(90)]);
    let read = |asked: Duration, longest| {
        let ms = i64::try_from(asked.as_millis()).unwrap();
        let message = published(&[("x-delay", AMQPValue::LongLongInt(ms))]);
        let delayed = Delayed::read(delivered(message, "reminders"), "reminders", NOW_MS, longest);
        let Delayed { due_ms, wanted, too_long, .. } = delayed;
        (due_ms, wanted, too_long)
    };
    assert_eq!(read(days(60), plugins), (None, None, Some(days(60))));
    assert_eq!(read(days(60), days(90)), (None, Some(days(60)), None));
    assert_eq!(read(days(91), days(90)), (None, None, Some(days(91))));
    assert_eq!(read(plugins, plugins), (None, Some(plugins), None));
}

/// What the plugin takes at the most.
const PLUGINS: Duration = Duration::from_millis(u32::MAX as u64);

const NOW_MS: u64 = 1_795_170_000_000;
const HUNDRED_DAYS_MS: i64 = 8_640_000_000;

/// The message as the broker delivers it, by `exchange`, with what a quorum queue adds.
fn delivered(message: Message, exchange: &str) -> Received {
    let Message { routing_key, message_id, content_type, mut headers, properties, body, .. } =
        message;
    headers.insert("x-delivery-count".into(), AMQPValue::LongLongInt(1));
    headers.insert("x-acquired-count".into(), AMQPValue::LongLongInt(2));
    Received {
        exchange: exchange.into(),
        routing_key: routing_key.into(),
        message_id: Some(message_id.into()),
        content_type: content_type.map(Into::into),
        headers,
        properties: Some(Box::new(properties)),
        body,
        ..Received::default()
    }
}

/// As somebody publishes it to the exchange that was taken over, with everything that could be mistaken for ours.
fn published(headers: &[(&str, AMQPValue)]) -> Message {
    let expiration = Some("86400000".to_owned());
    Message {
        exchange: "reminders".to_owned(),
        routing_key: "welcome.mail".to_owned(),
        message_id: "m-1".to_owned(),
        content_type: Some("text/plain".to_owned()),
        headers: table(headers),
        properties: Properties { expiration, priority: Some(3), ..Properties::default() },
        body: b"hello".to_vec(),
        needs_no_route: false,
    }
}

#[test]
fn however_often_it_is_sent_on_a_message_comes_out_as_it_was_published() {
    let forged = table(&[
        ("key", text("k")),
        ("due-ms", AMQPValue::LongLongInt(1)),
        ("headers", AMQPValue::FieldTable(FieldTable::default())),
    ]);
    let headers = [
        ("x-delay", AMQPValue::LongInt(90_000)),
        ("CC", text("other")),
        ("x-shop", text("7")),
        ("x-overdue-compat", AMQPValue::FieldTable(forged)),
    ];
    let message = published(&headers);
    let mut delayed =
        Delayed::read(delivered(message.clone(), "reminders"), "reminders", NOW_MS, PLUGINS);
    assert_eq!((delayed.due_ms, delayed.wanted.map(|it| it.as_secs())), (None, Some(90)));
    for due_ms in [1_795_170_600_000, 1_795_170_600_001] {
        let copy = delayed.on_its_way(way(None), due_ms);
        assert_eq!((&*copy.exchange, &*copy.routing_key), ("orders.in", "30m.unpaid"));
        assert_eq!(copy.properties.expiration, None, "it would end before it is due");
        let names: Vec<String> = copy.headers.inner().keys().map(ToString::to_string).collect();
        assert_eq!(names, ["x-overdue-compat"], "no header of its publisher says where it goes");
        delayed = Delayed::read(delivered(copy, "orders.dlx"), "reminders", NOW_MS, PLUGINS);
        assert_eq!((delayed.due_ms, delayed.wanted), (Some(due_ms), None));
    }
    let expected = Message { exchange: "orders.compat.due".to_owned(), ..message };
    let restored = delayed.restored("orders.compat.due".to_owned());
    assert_eq!(format!("{restored:?}"), format!("{expected:?}"));
}

/// A quorum queue of RabbitMQ 4.4 would hold it back once it is due.
#[test]
fn what_comes_out_at_once_is_without_what_a_queue_wrote() {
    let headers = [("x-shop", text("7")), ("x-opt-delivery-time", AMQPValue::LongLongInt(1))];
    let delayed =
        Delayed::read(delivered(published(&headers), "reminders"), "reminders", NOW_MS, PLUGINS);
    assert_eq!((delayed.due_ms, delayed.wanted), (None, None));
    let restored = delayed.restored("due".to_owned());
    assert_eq!(restored.headers, table(&headers[..1]));
}

/// Whoever may publish to the topology's own exchanges can write such a header.
#[test]
fn a_header_that_is_not_one_of_ours_is_a_publishers() {
    let (key, due) = (("key", text("k")), ("due-ms", AMQPValue::LongLongInt(5)));
    let inner = ("headers", AMQPValue::FieldTable(FieldTable::default()));
    let good = AMQPValue::FieldTable(table(&[key.clone(), due.clone(), inner.clone()]));
    let read = |value: &AMQPValue, exchange| {
        let received = delivered(published(&[("x-overdue-compat", value.clone())]), exchange);
        let delayed = Delayed::read(received, "reminders", NOW_MS, PLUGINS);
        (delayed.due_ms, delayed.restored("due".to_owned()).routing_key)
    };
    let theirs = (None, "welcome.mail".to_owned());
    assert_eq!(read(&good, "orders.dlx"), (Some(5), "k".to_owned()));
    assert_eq!(read(&good, "reminders"), theirs);
    let due_in = |ms| ("due-ms", AMQPValue::LongLongInt(NOW_MS.cast_signed() + ms));
    let longest = table(&[key.clone(), due_in(HUNDRED_DAYS_MS), inner.clone()]);
    let longest = read(&AMQPValue::FieldTable(longest), "orders.dlx");
    assert_eq!(longest, (Some(NOW_MS + HUNDRED_DAYS_MS.cast_unsigned()), "k".to_owned()));
    let negative = ("due-ms", AMQPValue::LongLongInt(-1));
    let number = ("key", AMQPValue::LongLongInt(1));
    for entries in [
        vec![due.clone(), inner.clone()],
        vec![key.clone(), inner.clone()],
        vec![key.clone(), due.clone()],
        vec![number, due, inner.clone()],
        vec![key.clone(), due_in(HUNDRED_DAYS_MS + 1), inner.clone()],
        vec![key, negative, inner],
    ] {
        let value = AMQPValue::FieldTable(table(&entries));
        assert_eq!(read(&value, "orders.dlx"), theirs, "{value:?}");
    }
    assert_eq!(read(&text("forged"), "orders.dlx"), theirs);
}
