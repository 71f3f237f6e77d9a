//! Rules about objects, each broken by hand on a real broker, through what is not the topology's or is retired.

use lapin::{options::BasicConsumeOptions, types::FieldTable};
use overdue::internals::{broker::PublishError, wire::Message};
use reqwest::Method;
use serde_json::json;

use super::applied;
use crate::support::{World, samples::two_timeouts, until};

/// Binds an exchange to another one.
async fn lead(world: &World, source: &str, destination: &str, key: &str) {
    let path = ["e", source, "e", destination];
    world.call(Method::POST, "bindings", &path, json!({ "routing_key": key })).await;
}

/// Messages come due, and somebody's exchange brings them back to the entry.
#[apply(world_test)]
async fn a_cycle_through_somebody_elses_exchange() {
    let world = applied().await;
    world.exchange("legacy", "topic", json!({})).await;
    lead(&world, "orders.dlx", "legacy", "#.unpaid").await;
    lead(&world, "legacy", "orders.in", "#").await;
    let found = world.findings();
    let expected = [
        "error foreign-subscriber exchange orders.dlx",
        "error dead-letter-cycle queue orders.delay.1s",
        "note foreign-publisher exchange orders.in",
    ];
    assert_eq!(found, expected);
}

/// Somebody listens for what is not routed, with an exchange that has no queue: it is not parked any more.
#[apply(world_test)]
async fn an_exchange_that_hides_the_alternate() {
    let world = applied().await;
    world.exchange("audit", "fanout", json!({})).await;
    lead(&world, "orders.in", "audit", "#").await;
    let expected = [
        "error alternate-exchange exchange orders.in",
        "warning foreign-subscriber exchange orders.in",
    ];
    assert_eq!(world.findings(), expected);
    // So it is: the broker has no route for it, and nothing is in the parking lot.
    let lost = Message {
        exchange: "orders.in".to_owned(),
        routing_key: "7m.unknown".to_owned(),
        message_id: "lost".to_owned(),
        ..Message::default()
    };
    let answer = world.publisher().await.publish(lost).await;
    assert!(matches!(answer, Err(PublishError::Returned { .. })), "{answer:?}");
    assert_eq!(world.take("orders.parked").await.len(), 0);
}

#[apply(world_test)]
async fn a_message_in_two_business_queues() {
    let world = applied().await;
    world.exchange("copy", "fanout", json!({})).await;
    lead(&world, "orders.dlx", "copy", "#.unshipped").await;
    world.bind("copy", "orders.unpaid", "").await;
    let expected = [
        "error foreign-subscriber exchange orders.dlx",
        "warning foreign-publisher queue orders.unpaid",
        "warning routing-overlap exchange orders.dlx",
    ];
    assert_eq!(world.findings(), expected);
    world.publish_to("orders.in", "1s.unshipped", 1).await;
    for queue in ["orders.unpaid", "orders.unshipped"] {
        let look = async || world.take(queue).await.len();
        until("the same message", look, |taken| *taken == 1).await;
    }
}

/// A level that was made by hand, used, and then replaced: what is in it comes out by its own rules.
async fn retired_level(arguments: serde_json::Value) -> World {
    let world = applied().await;
    world.delete("queues", "orders.delay.30m").await;
    world.queue("orders.delay.30m", arguments).await;
    world.bind("orders.in", "orders.delay.30m", "30m.*").await;
    world.bind("orders.owned", "orders.delay.30m", "delay/30m").await;
    assert_eq!(world.findings(), ["error changed-queue queue orders.delay.30m"]);
    world.publish_to("orders.in", "30m.unpaid", 1).await;
    world.apply(&two_timeouts()).await;
    world
}

#[apply(world_test)]
async fn a_retired_level_that_dead_letters_at_most_once() {
    let world = retired_level(json!({
        "x-queue-type": "quorum", "x-message-ttl": 1_800_000, "x-dead-letter-exchange": "orders.dlx",
    }))
    .await;
    let expected =
        ["warning at-least-once queue orders.delay.30m", "note draining queue orders.delay.30m"];
    assert_eq!(world.findings(), expected);
}

#[apply(world_test)]
async fn a_retired_level_that_leads_nowhere() {
    let world = retired_level(json!({
        "x-queue-type": "quorum", "x-message-ttl": 1_800_000, "x-dead-letter-exchange": "elsewhere",
        "x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
    }))
    .await;
    let expected =
        ["error routing-nowhere queue orders.delay.30m", "note draining queue orders.delay.30m"];
    assert_eq!(world.findings(), expected);
    // What verify says is enough.
    world.exchange("elsewhere", "fanout", json!({})).await;
    lead(&world, "elsewhere", "orders.dlx", "").await;
    let run = world.overdue(&["verify", "-o", "json"]);
    assert!(!run.findings().iter().any(|found| found.contains("routing-nowhere")), "{run}");
}

/// What a debugging client takes from a level is gone, and comes to nobody.
#[apply(world_test)]
async fn somebody_elses_consumer_on_a_level() {
    let world = applied().await;
    let wire = world.wire().await;
    let options = BasicConsumeOptions::default();
    // They go when they are dropped.
    let mut consumers = Vec::new();
    for queue in ["orders.delay.30m", "orders.unpaid"] {
        let consuming =
            wire.channel.basic_consume(queue.into(), "".into(), options, FieldTable::default());
        consumers.push(consuming.await.unwrap());
    }
    let expected = [
        "error foreign-consumer queue orders.delay.30m",
        "error foreign-consumer queue orders.unpaid",
    ];
    let found = async || world.overdue(&["verify", "-o", "json"]).findings();
    until("both consumers counted", found, |found| *found == expected).await;
}
