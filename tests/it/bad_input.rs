//! Garbage, forged headers, wrong routing keys: the worker parks them with a reason, never crashes, and handles all other messages.

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldArray},
};

use crate::support::{World, headers, table, text, until};

fn array(values: Vec<AMQPValue>) -> AMQPValue {
    AMQPValue::FieldArray(FieldArray::from(values))
}

/// The messages are in the queue before the worker starts, so that they are one batch.
#[apply(world_test)]
async fn a_body_that_is_no_due_notice_is_parked_with_the_reason_and_the_batch_is_closed() {
    let (world, wire) = World::new().await.wired().await;
    let orders = world.orders("o", 30, 0).await;
    let garbage: Vec<(Vec<u8>, &str)> = vec![
        (b"".to_vec(), "the body is empty"),
        (b" \n\t ".to_vec(), "the body is empty"),
        (b"\xff\xfe\x00".to_vec(), "the body is not UTF-8"),
        (b"caf\xe9".to_vec(), "the body is not UTF-8"),
        (b"{".to_vec(), "not a due notice in JSON: EOF"),
        (b"{\"order_id\":1.5}".to_vec(), "the order id is a number"),
        (b"{\"order_id\":null}".to_vec(), "no order id at /order_id"),
        (b"{\"order_id\":[\"o-1\"]}".to_vec(), "the order id is a list"),
        (b"{\"order_id\":\"\"}".to_vec(), "the order id is empty"),
        (b"{\"order_id\":\"o-1\"} trailing".to_vec(), "not a due notice in JSON: trailing"),
        (b"{\"order_id\":\"o\\u0000-1\"}".to_vec(), "white space or control characters"),
        (b"o\x00-1".to_vec(), "white space or control characters"),
        (b"two words".to_vec(), "white space or control characters"),
        (b"[\"o-1\"]".to_vec(), "no order id at /order_id; the body is a list"),
        ("[".repeat(60_000).into_bytes(), "not a due notice in JSON"),
        ("{\"order_id\":".repeat(5_000).into_bytes(), "not a due notice in JSON"),
        (vec![b'x'; 1_000], "the order id has 1000 bytes"),
    ];
    for (n, (body, _)) in garbage.iter().enumerate() {
        let properties = BasicProperties::default().with_content_type("application/json".into());
        wire.publish("orders.dlx", "30m.unpaid", properties, body).await;
        let (from, to) = (n, (n + 1).min(orders.len()));
        wire.publish_all("orders.dlx", "30m.unpaid", &orders[from..to]).await;
    }
    wire.publish_all("orders.dlx", "30m.unpaid", &orders[garbage.len()..]).await;

    let worker = world.worker();
    world.until_closed(30).await;
    world.assert_invariants().await;
    let parked = world.parked(garbage.len()).await;
    for (body, reason) in &garbage {
        let found = parked.iter().find(|parked| parked.body == *body);
        let found = found.unwrap_or_else(|| panic!("not parked: the one where {reason}"));
        assert!(found.reason().contains(reason), "{}: {}", reason, found.reason());
        assert_eq!(found.header("x-park-timeout").as_deref(), Some("unpaid"));
        assert_eq!(found.key, "30m.unpaid");
        assert_eq!(found.content_type.as_deref(), Some("application/json"));
    }
    let counts = worker.stop().await;
    assert_eq!((counts.closed, counts.retried), (30, 0));
}

#[apply(world_test)]
async fn the_largest_body_that_the_broker_takes_is_parked_whole() {
    let (world, wire) = World::new().await.wired().await;
    let orders = world.orders("o", 10, 0).await;
    let body = vec![b'x'; 16 * 1024 * 1024];
    let worker = world.worker();
    wire.publish("orders.in", "100ms.unpaid", BasicProperties::default(), &body).await;
    world.publish("100ms", &orders).await;
    world.until_closed(10).await;
    let parked = world.parked(1).await.remove(0);
    assert!(parked.body == body, "{} bytes parked", parked.body.len());
    assert_eq!(worker.stop().await.parked, 1);
}

/// A forged attempt that looks like ours only parks the message sooner.
#[apply(world_test)]
async fn an_attempt_that_is_no_count_of_ours_counts_as_none() {
    let (world, wire) = World::new().await.wired().await;
    let none = [
        text("2"),
        AMQPValue::LongInt(-5),
        AMQPValue::LongLongInt(i64::MAX),
        AMQPValue::LongLongInt(i64::MIN),
        AMQPValue::LongUInt(u32::MAX),
        AMQPValue::Double(2.0),
        AMQPValue::Boolean(true),
        AMQPValue::Void,
        array(vec![AMQPValue::LongInt(2)]),
        AMQPValue::FieldTable(table(&[("x-attempt", AMQPValue::LongInt(2))])),
    ];
    let counted = [2, 3, 999_999].map(AMQPValue::LongInt);
    let of_ours = counted.len();
    for (n, value) in none.iter().chain(&counted).enumerate() {
        let properties = headers(&[("x-attempt", value.clone())]);
        let body = format!("forged-{n}");
        wire.publish("orders.in", "100ms.unpaid", properties, body.as_bytes()).await;
    }
    let worker = world.worker();
    for parked in world.parked(none.len() + of_ours).await {
        let retries = if parked.text() == "forged-12" { 999_999 } else { 3 };
        let reason =
            format!("the database does not know this order; given up after {retries} retries");
        assert_eq!(parked.reason(), reason);
    }
    // The message with two attempts has one left.
    worker.until("each retry counted", |c| c.retried >= 31).await;
    assert_eq!(worker.stop().await.retried, 31);
}

fn forged_death(queue: &str) -> AMQPValue {
    let death = [
        ("queue", text(queue)),
        ("reason", text("expired")),
        ("count", AMQPValue::LongLongInt(1_000)),
        ("exchange", text("orders.in")),
        ("routing-keys", array(vec![text("100ms.unpaid")])),
        ("time", AMQPValue::Timestamp(0)),
    ];
    array(vec![AMQPValue::FieldTable(table(&death))])
}

/// The messages outnumber a level's slots for undeliverable messages.
#[apply(world_test)]
async fn forged_death_and_delivery_headers_stop_no_level_and_leave_no_trace() {
    let (world, wire) = World::new().await.wired().await;
    let known = world.orders("o", 1_040, 0).await;
    let forged = headers(&[
        ("x-death", forged_death("orders.unpaid")),
        ("x-first-death-queue", text("orders.unpaid")),
        ("x-first-death-reason", text("expired")),
        ("x-first-death-exchange", text("orders.in")),
        ("x-last-death-queue", AMQPValue::LongInt(7)),
        ("x-delivery-count", AMQPValue::LongInt(1_000)),
        ("x-acquired-count", text("many")),
        ("x-park-reason", text("somebody else's")),
        ("x-park-timeout", AMQPValue::Void),
        ("kept", text("yes")),
    ]);
    let worker = world.worker();
    for body in known.iter().map(String::as_str).chain(["nobody", "nobody-2"]) {
        wire.publish("orders.in", "100ms.unpaid", forged.clone(), body.as_bytes()).await;
    }
    let broken = headers(&[("x-death", text("none")), ("x-attempt", AMQPValue::Void)]);
    wire.publish("orders.in", "100ms.unpaid", broken, b"nobody-3").await;
    world.until_closed(1_040).await;
    for parked in world.parked(3).await {
        let reason = "the database does not know this order; given up after 3 retries";
        assert_eq!(parked.reason(), reason);
        let brokers: Vec<&String> = parked
            .headers
            .keys()
            .filter(|key| key.contains("death") || key.contains("-count"))
            .collect();
        assert!(brokers.is_empty(), "{brokers:?}");
        let kept = parked.text() != "nobody-3";
        assert_eq!(parked.header("kept").is_some(), kept);
    }
    worker.stop().await;
    world.assert_invariants().await;
}

/// `CC` and `BCC` are routing keys to the broker: in a copy they would multiply the message at every hop. With an expiration the copy
/// would never arrive.
#[apply(world_test)]
async fn properties_that_would_change_a_copys_way_are_not_copied() {
    let (world, wire) = World::new().await.wired().await;
    let orders = world.orders("o", 1, 60_000).await;
    let worker = world.worker();
    let forged = headers(&[
        ("CC", array(vec![text("500ms.unpaid")])),
        ("BCC", array(vec![text("1s.unpaid")])),
    ])
    .with_expiration("1".into())
    .with_priority(200)
    .with_reply_to("somebody".into())
    .with_timestamp(1)
    .with_delivery_mode(1);
    wire.publish("orders.in", "100ms.unpaid", forged, orders[0].as_bytes()).await;
    let counts = async || worker.counts();
    until("each put back twice", counts, |counts| counts.put_back >= 6).await;
    world.due_now().await;
    // Three copies, as the sender requested: one closes the order, two find it closed.
    until("all three settled", counts, |counts| counts.already_final == 2).await;
    // No level contains another copy.
    for queue in ["orders.delay.100ms", "orders.delay.200ms", "orders.delay.300ms", "orders.unpaid"]
    {
        assert_eq!(wire.ready(queue).await, 0, "{queue}");
    }
    assert_eq!(worker.stop().await.already_final, 2);
}

/// Undeliverable messages use up a level's slots: without an alternate exchange behind the levels they would stop it for good.
#[apply(world_test)]
async fn a_level_or_a_timeout_that_does_not_exist_is_parked_by_the_alternate_exchange() {
    const LOST: usize = 1_064;
    let (world, wire) = World::new().await.wired().await;
    let orders = world.orders("o", 50, 0).await;
    wire.publish_all("orders.in", "100ms.nonsense", &vec!["100ms.nonsense".to_owned(); LOST]).await;
    let worker = world.worker();
    world.publish("100ms", &orders).await;
    world.until_closed(50).await;
    for key in ["99m.unpaid", "unpaid", "", "100ms", "100ms.unpaid.twice", "#.unpaid"] {
        wire.publish("orders.in", key, BasicProperties::default(), key.as_bytes()).await;
    }
    let parked = world.parked(LOST + 6).await;
    for message in &parked {
        assert_eq!(message.key, message.text());
        assert!(!message.headers.contains_key("x-park-reason"), "{message:?}");
    }
    // The message from the level has the queue's name in a header.
    let nonsense = parked.iter().find(|message| message.key == "100ms.nonsense").unwrap();
    assert_eq!(nonsense.header("x-first-death-queue").as_deref(), Some("orders.delay.100ms"));
    assert_eq!(worker.stop().await.parked, 0);
}
