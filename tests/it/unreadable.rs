//! Messages that no AMQP client could have written, and that our client library cannot read unchanged.
//!
//! Before, each of these ended every session, or the process, until the delivery limit parked it. The broker parked all messages
//! that were prefetched at the same time with it.

use lapin::types::AMQPValue;

use crate::support::{Parked, World, ids, python, text};

/// Exchange, routing key, body, and the name of the forgery.
type Forged<'a> = [&'a str; 4];

/// Publishes the messages one after the other.
fn forge(world: &World, messages: &[Forged<'_>]) {
    let lines = messages.iter().map(|message| serde_json::json!(message).to_string());
    let lines: Vec<String> = lines.collect();
    python("tests/python/forge.py", &[&world.broker_url()], &lines.join("\n")).exits(0);
}

const WHAT: [&str; 9] = [
    "message-id",
    "header-name",
    "nested-tables 20",
    "nested-tables 1000",
    "nested-tables 15000",
    "nested-arrays 20000",
    "long-header 20000",
    "long-header 30000",
    "long-header 130900",
];

/// Each message closes its order. For an unknown order it is parked, and its headers name the dropped parts.
#[apply(world_test)]
async fn a_message_that_the_client_cannot_read_is_worked_like_any_other() {
    let world = World::new().await;
    let mut process = world.started(|_| {}).await;
    let orders = world.orders("o", 2 * WHAT.len() + 1, 0).await;
    let unknown = ids("nobody", WHAT.len() + 1);
    let mut messages: Vec<Forged<'_>> = Vec::new();
    for ((what, ids), unknown) in WHAT.iter().zip(orders.chunks(2)).zip(&unknown) {
        messages.push(["orders.in", "100ms.unpaid", &ids[0], what]);
        // Without a level in the path there is no `x-death`.
        messages.push(["orders.dlx", "1s.unpaid", &ids[1], what]);
        messages.push(["orders.in", "100ms.unpaid", unknown, what]);
    }
    for last in [&orders, &unknown] {
        messages.push(["orders.dlx", "unpaid", last.last().unwrap(), "routing-key"]);
    }
    forge(&world, &messages);
    let others = world.publish_orders("100ms", "p", 50, 0).await;
    world.until_closed(orders.len() + others.len()).await;
    let parked = world.parked(unknown.len()).await;
    world.until_empty("orders.unpaid").await;
    world.assert_invariants().await;
    assert!(process.is_running());
    assert!(!process.log().contains("session ended"), "{}", process.log());

    let of = |n: usize| -> &Parked {
        parked.iter().find(|message| message.text() == format!("nobody-{n}")).unwrap()
    };
    let dropped = |n: usize| of(n).header("x-dropped-properties");
    for message in &parked {
        assert!(message.reason().ends_with("given up after 3 retries"), "{message:?}");
    }
    assert_eq!(of(0).message_id.as_deref(), Some("caf?"));
    assert_eq!(of(1).headers.get("caf?"), Some(&text("kept")));
    assert!(matches!(of(2).headers.get("n"), Some(AMQPValue::FieldTable(_))));
    for n in [3, 4, 5] {
        let reason = dropped(n).unwrap();
        assert_eq!(reason, "dropped: their headers are nested too deeply", "{n}");
    }
    assert_eq!(of(6).header("long").map(|long| long.len()), Some(20_000));
    assert_eq!(dropped(7).unwrap(), "dropped: they fill a frame");
    assert_eq!(dropped(8).unwrap(), "dropped: their headers take too much memory");
    // The retries gave the message a routing key of ours.
    assert!(of(9).key.ends_with(".unpaid"), "{:?}", of(9));
}
