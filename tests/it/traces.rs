//! The trace of a notice goes where the notice goes, and on into the event.

use std::collections::BTreeSet;

use futures_util::future::join_all;
use jiff::Timestamp;
use lapin::{BasicProperties, types::AMQPValue};
use overdue::internals::{config::WorkerSettings, effect::Statements, wire::Message};
use serde_json::json;
use tokio_postgres::types::Json;

use crate::{
    bursts::{full_batches, until_in_burst},
    support::{
        Parked, Wire, World, headers,
        orders::WRITTEN,
        statements::{contended, statements},
        table, text,
        worker::millis,
    },
};

pub(crate) const TRACE_ID: &str = "4bf92f3577b34da6a3ce929d0e0e4736";
pub(crate) const PARENT: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const STATE: &str = "shop=north,overdue=1";

/// A notice for an order, through a level.
pub(crate) async fn publish(wire: &Wire, key: &str, order: &str, headers: &[(&str, AMQPValue)]) {
    let properties = self::headers(headers).with_delivery_mode(2);
    assert!(wire.publish("orders.in", key, properties, order.as_bytes()).await.is_ack());
}

fn trace_of(message: &Parked) -> [Option<String>; 2] {
    ["traceparent", "tracestate"].map(|name| message.header(name))
}

fn given() -> [Option<String>; 2] {
    [PARENT, STATE].map(|text| Some(text.to_owned()))
}

/// Level, three retries, the parking lot, a replay, and the event.
#[apply(world_test)]
async fn a_trace_goes_along_through_retries_parking_lot_and_replay_into_log_and_event() {
    let (world, wire) = World::new().await.wired().await;
    let events = wire.listen("orders.events", "#").await;
    let mut process = world.started(|it| _ = it.env("OVERDUE_LOG__FILTER", "overdue=debug")).await;
    let headers = [("traceparent", text(PARENT)), ("tracestate", text(STATE))];
    publish(&wire, "100ms.unpaid", "o-0", &headers).await;
    wire.until_ready("orders.parked", 1).await;
    process.until_logged("parked timeout=\"unpaid\"").await;
    let log = process.log();
    let traced = format!("trace_id=\"{TRACE_ID}\"");
    let lines = |what: &str| log.lines().filter(|it| it.contains(what)).collect::<Vec<_>>();
    let [put_back, answered] = ["put back order=\"o-0\"", "answered order=\"o-0\""].map(lines);
    assert!(put_back.len() >= 3 && answered.len() >= 4, "{log}");
    let parked = ["parked order=\"o-0\"", "parked timeout=\"unpaid\""].map(lines).concat();
    for line in put_back.into_iter().chain(answered).chain(parked) {
        assert!(line.contains(&traced), "{line}");
    }

    world.orders("o", 1, -1_000).await;
    world.overdue(&["parked", "replay", "--yes"]).exits(0);
    world.until_closed(1).await;
    let event = wire.take_many(&events, 1).await.remove(0);
    assert_eq!((event.key.as_str(), trace_of(&event)), ("order.closed", given()));
    process.until_logged("outcome=\"closed\"").await;
}

/// Orders of one batch have their own, or none; what is none parks nothing.
#[apply(world_test)]
async fn what_is_no_trace_is_left_out_of_the_event() {
    let (world, wire) = World::new().await.wired().await;
    let events = wire.listen("orders.events", "#").await;
    let orders = world.orders("o", 6, 0).await;
    let upper = PARENT.to_uppercase();
    let no_parents = [
        Vec::new(),
        vec![("traceparent", text(&upper)), ("tracestate", text(STATE))],
        vec![("traceparent", AMQPValue::LongInt(7))],
        vec![("tracestate", text(STATE))],
    ];
    for (order, headers) in orders.iter().zip(&no_parents) {
        publish(&wire, "100ms.unpaid", order, headers).await;
    }
    let no_state = [("traceparent", text(PARENT)), ("tracestate", text("a=\u{e4}"))];
    publish(&wire, "100ms.unpaid", &orders[4], &no_state).await;
    let whole = [("traceparent", text(PARENT)), ("tracestate", text(STATE))];
    publish(&wire, "100ms.unpaid", &orders[5], &whole).await;
    let worker = world.worker();
    world.until_closed(6).await;
    let mut told: Vec<_> = wire.take_many(&events, 6).await;
    told.sort_by_key(Parked::order);
    let told: Vec<_> = told.iter().map(trace_of).collect();
    let none = || [None, None];
    let [parent, _] = given();
    assert_eq!(told, [none(), none(), none(), none(), [parent, None], given()]);
    assert_eq!(worker.stop().await.parked, 0);
}

/// A burst closes orders ahead of their messages: it knows the traces of those that are in hand.
#[apply(world_test)]
async fn orders_that_a_burst_closes_have_the_traces_of_their_messages() {
    let (world, wire) = World::new().await.wired().await;
    let events = wire.listen("orders.events", "#").await;
    let worker = world.worker_with(WorkerSettings { hold: millis("1m"), ..full_batches() });
    let orders = world.orders_without_stock("o", 700).await;
    // Long enough for all messages to be in hand before: a burst is asked for when 500 are due there.
    let due_ms = world.number("SELECT (extract(epoch FROM now()) * 1000)::bigint + 20000").await;
    let due_at = Timestamp::from_millisecond(due_ms).unwrap();
    world.sql(&format!("UPDATE orders SET due_at = '{due_at}'")).await;
    let headers = table(&[("traceparent", text(PARENT))]);
    let publisher = world.publisher().await;
    let notice = |id: &String| Message {
        headers: headers.clone(),
        body: json!({ "order_id": id, "due_at": due_at.to_string() }).to_string().into_bytes(),
        ..world.notice("100ms", id)
    };
    for sent in join_all(orders[..500].iter().map(|id| publisher.publish(notice(id)))).await {
        sent.unwrap();
    }
    worker.until("in hand", |counts| counts.held >= 500).await;
    until_in_burst(&worker, 200).await;
    world.until_closed(700).await;
    let traced: BTreeSet<String> = orders[..500].iter().cloned().collect();
    for event in wire.take_many(&events, 700).await {
        let expected = traced.contains(&event.order()).then(|| PARENT.to_owned());
        assert_eq!(event.header("traceparent"), expected, "{event:?}");
    }
}

/// Of the transaction that calls `schedule()`, since a trigger cannot pass an argument on. What is set aside keeps it: an event that the
/// broker refuses, and a notice that cannot be published.
#[apply(world_test)]
async fn rows_that_are_published_or_set_aside_have_the_trace_of_their_transaction() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let wire = world.wire().await;
    let along = wire.listen("orders.again", "#").await;
    let one = [("x-max-length", AMQPValue::LongInt(1)), ("x-overflow", text("reject-publish"))];
    wire.queue("full", &one).await;
    wire.bind("full", "orders.events", "#").await;
    wire.publish("orders.events", "first", BasicProperties::default(), b"").await;
    let script = "
        CREATE TRIGGER schedule AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION schedule_row('unpaid', 'id', 'due_at');
        INSERT INTO orders (id, due_at) VALUES ('untraced', now() + interval '1 h');
        BEGIN;
        SET LOCAL overdue.traceparent = 'of another kind';
        INSERT INTO orders (id, due_at) VALUES ('wrong', now() + interval '1 h');
        COMMIT;
        BEGIN;
        SELECT set_config('overdue.traceparent', '{parent}', true), set_config('overdue.tracestate', '{state}', true);
        INSERT INTO orders (id, due_at) VALUES ('traced', now() + interval '1 h');
        INSERT INTO scheduled_notices (order_id, timeout, due_at) VALUES ('bad', 'unpaid', 'infinity');
        INSERT INTO outbox (event, order_id, traceparent, tracestate) VALUES ('order.closed', 'o', '{parent}', '{state}');
        COMMIT";
    world.sql(&script.replace("{parent}", PARENT).replace("{state}", STATE)).await;
    let _worker = world.worker();
    for message in wire.take_many(&along, 3).await {
        let expected = if message.order() == "traced" { given() } else { [None, None] };
        assert_eq!(trace_of(&message), expected, "{message:?}");
    }
    for table in ["outbox_refused", "scheduled_notices_refused"] {
        let traced = format!("{table} WHERE traceparent = '{PARENT}' AND tracestate = '{STATE}'");
        world.until_rows(&traced, 1).await;
    }
    let events = wire.listen("orders.events", "#").await;
    world.delete("queues", "full").await;
    assert_eq!(trace_of(&wire.take_many(&events, 1).await[0]), given());
}

/// Every built-in statement, also those that pass over what is locked.
#[apply(world_test)]
async fn each_statement_that_closes_orders_passes_their_traces_on() {
    let mut all =
        vec![("unpaid", Statements { close: WRITTEN.to_owned(), ..Statements::default() })];
    for (state, name) in [("unpaid", "close"), ("paid", "cancel"), ("shipped", "complete")] {
        let statements = statements(name);
        all.extend([(state, contended(&statements)), (state, statements)]);
    }
    let world = World::of_tables().await;
    let traces = json!({ "traced": { "traceparent": PARENT, "tracestate": STATE }, "other": {} });
    for (state, Statements { lock, close, .. }) in &all {
        world.sql("DELETE FROM order_items; DELETE FROM orders; DELETE FROM outbox").await;
        for id in ["traced", "untraced"] {
            world.sql(&format!("INSERT INTO orders (id, due_at) VALUES ('{id}', now())")).await;
            world.bring_to(id, state).await;
        }
        world.sql("UPDATE orders SET due_at = now(), ship_by = now(), confirm_by = now()").await;
        let mut client = world.store.client().await.unwrap();
        let transaction = client.transaction().await.unwrap();
        let ids = ["traced", "untraced"].as_slice();
        if let Some(lock) = lock {
            transaction.query_one(lock, &[&ids]).await.unwrap();
        }
        let closed = transaction.query(close, &[&ids, &"message", &Json(&traces)]).await;
        assert_eq!(closed.unwrap().len(), 2, "{close}");
        transaction.commit().await.unwrap();
        let rows =
            client.query("SELECT traceparent, tracestate FROM outbox ORDER BY order_id", &[]);
        let written: Vec<[Option<String>; 2]> =
            rows.await.unwrap().iter().map(|row| [row.get(0), row.get(1)]).collect();
        assert_eq!(written, [given(), [None, None]], "{close}");
    }
}
