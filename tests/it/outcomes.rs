//! The disposition of a message for each outcome of the database.

use std::collections::BTreeSet;

use lapin::{BasicProperties, types::AMQPValue};
use overdue::internals::{config::WorkerSettings, topology::route::Delay};

use crate::support::{Orders, Parked, World, until, worker::settings, world::TOPOLOGY};

#[apply(world_test)]
async fn an_unpaid_order_is_closed_its_stock_released_and_the_event_published() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "order.*").await;
    let orders = world.orders("o", 20, 500).await;
    let worker = world.worker();
    world.publish("500ms", &orders).await;
    world.until_closed(20).await;
    world.assert_invariants().await;
    assert_eq!(world.rows_of("closures WHERE path = 'message'").await, 20);
    assert_eq!(world.number("SELECT sum(reserved)::bigint FROM stock").await, 0);

    let events = wire.take_many(&subscriber, 20).await;
    let told: BTreeSet<String> = events.iter().map(Parked::order).collect();
    assert_eq!(told, orders.into_iter().collect());
    assert!(events.iter().all(|event| event.key == "order.closed"));
    let ids: BTreeSet<_> = events.iter().map(|event| event.message_id.clone()).collect();
    assert_eq!(ids.len(), 20);
    world.until_rows("outbox", 0).await;

    world.until_empty("orders.unpaid").await;
    assert_eq!(worker.stops_after(0, 0).await.closed, 20);
    world.parked(0).await;
}

/// An event without a bound queue is delivered to all its subscribers, which are none: it leaves the outbox.
#[apply(world_test)]
async fn an_event_without_subscribers_leaves_the_outbox() {
    let world = World::new().await;
    let orders = world.orders("o", 3, 0).await;
    let _worker = world.worker();
    world.publish("100ms", &orders).await;
    world.until_closed(3).await;
    world.until_rows("outbox", 0).await;
}

#[apply(world_test)]
async fn an_order_that_got_on_is_left_alone() {
    let world = World::new().await;
    let mut orders = world.orders("o", 6, 300).await;
    assert!(world.pay(&orders[0]).await);
    let states = ["paid", "shipped", "completed", "cancelled", "closed"];
    for (order, state) in orders[1..].iter().zip(states) {
        world.bring_to(order, state).await;
    }
    let before = world.statuses().await;
    let worker = world.worker();
    orders.sort();
    world.publish("300ms", &orders).await;
    let counts = async || worker.counts();
    until("all settled", counts, |counts| counts.already_final == 6).await;
    assert_eq!(world.statuses().await, before);
    assert_eq!((world.rows_of("closures").await, world.rows_of("outbox").await), (0, 0));
    assert_eq!(worker.stop().await.closed, 0);
}

/// The worker chooses a level again at each hop, and the remaining time is short: in the longest level the order would wait
/// for 30 min.
#[apply(world_test)]
async fn an_order_that_is_not_due_waits_in_the_levels_that_bring_it_closest_and_burns_no_retry() {
    let (world, wire) = World::new().await.wired().await;
    let along = wire.listen("orders.in", "#").await;
    wire.bind(&along, "orders.again", "#").await;
    // The deadline is between the longest level and the one before it, however slow the machine is.
    let next = world.orders("next", 1, 60_000).await;
    let soon = world.orders("soon", 10, 1_800).await;
    let far = world.orders("far", 5, 90 * 24 * 3_600 * 1_000).await;
    let worker = world.worker();
    for orders in [&next, &soon, &far] {
        world.publish("100ms", orders).await;
    }
    world.until_closed(10).await;
    wire.until_ready("orders.delay.30m", 5).await;
    let mut hops = Vec::new();
    let came = async || {
        hops.extend(wire.take_all(&along).await.into_iter().filter(|it| it.order() == "next-0"));
        hops.clone()
    };
    let hops = until("put back twice", came, |hops| hops.len() >= 3).await;
    assert_eq!(world.closed().await, 10);
    world.sql("UPDATE orders SET due_at = now() WHERE id = 'next-0'").await;
    world.until_closed(11).await;
    world.assert_invariants().await;

    worker.stops_after(0, 0).await;
    // The published hop, then the largest level that does not exceed the deadline.
    assert_eq!(hops[0].key, "100ms.unpaid");
    let level = world.topology.route("unpaid", &Delay::after("59s").unwrap()).unwrap();
    for hop in &hops[1..] {
        assert_eq!(hop.key, level.routing_key);
        assert_eq!(hop.attempt(), Some(&AMQPValue::LongLongInt(0)), "{hop:?}");
        assert_eq!(hop.delivery_mode, Some(2));
        assert_eq!(hop.body, hops[0].body);
        assert_eq!(hop.message_id, hops[0].message_id);
    }
}

#[apply(world_test)]
async fn an_order_that_nobody_knows_goes_through_the_retry_levels_and_is_parked_as_it_came() {
    let (world, wire) = World::new().await.wired().await;
    let along = wire.listen("orders.in", "#").await;
    wire.bind(&along, "orders.again", "#").await;
    let worker = world.worker();
    let mut notice = world.notice("100ms", "nobody");
    notice.headers.insert("x-trace".into(), AMQPValue::LongString("abc".into()));
    notice.message_id = "mine".to_owned();
    notice.properties.correlation_id = Some("checkout-7".to_owned());
    notice.properties.timestamp_s = Some(1_700_000_000);
    // A copy with the expiration would vanish from the parking lot.
    notice.properties.expiration = Some("900000".to_owned());
    world.publisher().await.publish(notice).await.unwrap();

    let parked = world.parked(1).await.remove(0);
    assert_eq!(parked.reason(), "the database does not know this order; given up after 3 retries");
    assert_eq!(parked.header("x-park-timeout").as_deref(), Some("unpaid"));
    assert_eq!(parked.header("x-trace").as_deref(), Some("abc"));
    assert_eq!(parked.attempt(), Some(&AMQPValue::LongLongInt(3)));
    assert_eq!(parked.message_id.as_deref(), Some("mine"));
    assert_eq!(parked.content_type.as_deref(), Some("application/json"));
    assert_eq!(parked.delivery_mode, Some(2));
    let correlation = parked.properties.correlation_id().as_ref().map(ToString::to_string);
    assert_eq!(correlation.as_deref(), Some("checkout-7"));
    assert_eq!(*parked.properties.timestamp(), Some(1_700_000_000));
    assert_eq!(*parked.properties.expiration(), None);
    assert_eq!(parked.text(), r#"{"order_id":"nobody"}"#);
    assert!(!parked.headers.contains_key("x-death"), "{parked:?}");

    let counts = async || worker.counts();
    until("counted", counts, |counts| (counts.retried, counts.parked) == (3, 1)).await;
    worker.stops_after(3, 1).await;
    let hops = wire.take_many(&along, 4).await;
    let keys: Vec<&str> = hops.iter().map(|hop| hop.key.as_str()).collect();
    assert_eq!(keys, ["100ms.unpaid", "100ms.unpaid", "200ms.unpaid", "300ms.unpaid"]);
    let attempts: Vec<_> = hops.iter().map(|hop| hop.attempt().cloned()).collect();
    let attempt = |n| Some(AMQPValue::LongLongInt(n));
    assert_eq!(attempts, [None, attempt(1), attempt(2), attempt(3)]);
}

#[apply(world_test)]
async fn an_order_committed_after_its_message_came_is_closed_by_a_retry() {
    // Long retries, so that some are left when the order is committed, however slow the machine is.
    let text = crate::support::world::TOPOLOGY.replace(
        r#"after = ["100ms", "200ms", "300ms"]"#,
        r#"after = ["1s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s", "2s"]"#,
    );
    let world = World::of(&text).await;
    let worker = world.worker();
    world.publish("100ms", &["o-0".to_owned()]).await;
    let counts = async || worker.counts();
    until("a retry", counts, |counts| counts.retried > 0).await;
    world.orders("o", 1, 0).await;
    world.until_closed(1).await;
    world.assert_invariants().await;
    assert_eq!(worker.stop().await.parked, 0);
}

#[apply(world_test)]
async fn fifty_copies_of_a_message_close_the_order_once() {
    let (world, wire) = World::new().await.wired().await;
    let orders = world.orders("o", 4, 0).await;
    // Published before the worker starts, so that they meet in batches: 200 in one, then in sevens.
    let copies: Vec<String> = orders.iter().cycle().take(200).cloned().collect();
    for batch_size in [500, 7] {
        wire.publish_all("orders.dlx", "100ms.unpaid", &copies).await;
        let worker = world.worker_with(WorkerSettings { batch_size, ..settings() });
        let counts = async || worker.counts();
        let settled = until("200 settled", counts, |c| c.closed + c.already_final == 200).await;
        assert_eq!(settled.closed, if batch_size == 500 { 4 } else { 0 });
        worker.stop().await;
        world.assert_invariants().await;
        assert_eq!(world.closed().await, 4);
    }
    world.parked(0).await;
}

/// Ids with a meaning in SQL or in a shell are ids like any other.
#[apply(world_test)]
async fn a_body_is_the_bare_id_or_json_whatever_the_content_type_says() {
    const BARE: [&str; 9] = [
        "';DROP/**/TABLE/**/orders;--",
        "{o-1,o-2}",
        "\\",
        "$1",
        "NULL",
        "%s",
        "日本語-😀",
        "-1",
        "1e400",
    ];
    let (world, wire) = World::new().await.wired().await;
    let orders = world.orders("o", 8, 0).await;
    let bare = BARE.map(str::to_owned);
    world.create(Orders { ids: &bare, due_in_ms: 0, category: "x" }).await;
    let bodies = [
        ("o-0", None),
        ("o-1\n", Some("text/plain")),
        (r#"{"order_id":"o-2"}"#, Some("application/json")),
        (r#"{"order_id":"o-3"}"#, None),
        ("{ \"order_id\" : \"o-4\", \"due_at\": \"2026-11-20T10:30:00Z\" }\n", None),
        (r#"{"order_id":"o-5","due_at":null,"customer":{"vip":true}}"#, None),
        ("o-6", Some("application/json")),
        (r#"{"order_id":"o-7"}"#, Some("text/plain; charset=utf-8")),
    ];
    for (body, content_type) in bodies {
        let mut properties = BasicProperties::default();
        if let Some(content_type) = content_type {
            properties = properties.with_content_type(content_type.into());
        }
        wire.publish("orders.in", "100ms.unpaid", properties, body.as_bytes()).await;
    }
    world.publish("100ms", &bare).await;
    let worker = world.worker();
    world.until_closed(orders.len() + bare.len()).await;
    world.until_empty("orders.unpaid").await;
    assert_eq!(worker.stop().await.parked, 0);
    world.assert_invariants().await;
}

/// Bodies of another program, with hints in local time: the messages close their orders anyway.
#[apply(world_test)]
async fn hints_that_cannot_be_read_are_ignored_and_named_with_their_publisher() {
    let topology = format!("{TOPOLOGY}\n[message]\norder_id = [\"/message/orderId\"]\n");
    let (world, wire) = World::of(&topology).await.wired().await;
    world.orders("o", 3, 0).await;
    let bodies = [
        r#"{"order_id":"o-0","due_at":"2026-11-28 10:30:00"}"#,
        r#"{"message":{"orderId":"o-1"},"due_at":[2026,11,28]}"#,
        r#"{"message":{"orderId":"o-2"},"due_at":1795170600}"#,
    ];
    for body in bodies {
        let properties = BasicProperties::default().with_app_id("checkout".into());
        wire.publish("orders.in", "100ms.unpaid", properties, body.as_bytes()).await;
    }
    let mut process = world.started(|_| {}).await;
    world.until_closed(3).await;
    process.until_logged("due_at of these notices is ignored").await;
    let log = process.log();
    assert!(log.contains("app_id=\"checkout\"") && log.contains("2026-11-28 10:30:00"), "{log}");
    world.parked(0).await;
}

/// Ids at the limit, without a message-id, so that the worker creates one for the copy.
#[apply(world_test)]
async fn the_longest_order_ids_can_be_closed_put_back_and_parked() {
    let world = World::new().await;
    let longest = overdue::internals::order::MAX_ORDER_ID_BYTES;
    let id = |letter: &str| letter.repeat(longest / letter.len());
    let due = vec![id("d"), id("ß")];
    let early = vec![id("e"), id("é")];
    world.create(Orders { ids: &due, due_in_ms: 0, category: "x" }).await;
    world.create(Orders { ids: &early, due_in_ms: 60_000, category: "x" }).await;
    let worker = world.worker();
    let wire = world.wire().await;
    let unknown = vec![id("u"), id("ü")];
    for ids in [&due, &early, &unknown] {
        wire.publish_all("orders.in", "100ms.unpaid", ids).await;
    }
    let counts = async || worker.counts();
    until("put back", counts, |counts| counts.put_back >= 2).await;
    world.due_now().await;
    world.until_closed(4).await;
    let mut parked: Vec<String> = world.parked(2).await.iter().map(Parked::text).collect();
    parked.sort();
    assert_eq!(parked, unknown);
    worker.stop().await;
    world.assert_invariants().await;
}
