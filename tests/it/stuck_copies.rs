//! A level or a parking lot that takes nothing stops only the messages that have to go there.

use serde_json::json;

use crate::support::{World, samples::orders, until};

fn topology() -> String {
    orders("levels = ['100ms', '1h']", &[("unpaid", "100ms", "close")], "['100ms']")
}

#[apply(world_test)]
async fn a_full_level_stops_only_the_messages_that_have_to_wait_in_it() {
    let (world, wire) = World::of(&topology()).await.wired().await;
    let early = world.orders("early", 600, 36_000_000).await;
    let good = world.orders("good", 2_000, 0).await;
    world.policy("policies", "full", r"^orders\.delay\.1h$", json!({ "max-length": 5 })).await;
    world.until_policy("orders.delay.1h", "full").await;
    let mut process = world.started(|_| {}).await;
    wire.publish_all("orders.dlx", "1h.unpaid", &early).await;
    process.until_logged("messages wait: the broker has not confirmed their copies").await;
    wire.publish_all("orders.dlx", "1h.unpaid", &good).await;
    world.until_closed(2_000).await;
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());

    world.delete("policies", "full").await;
    wire.until_ready("orders.delay.1h", 600).await;
    process.stops().await;
    let log = process.log();
    assert!(log.contains("put_back=600 retried=0 parked=0"), "{log}");
    assert_eq!(log.matches("session ended").count(), 0);
}

#[apply(world_test)]
async fn a_full_parking_lot_stops_only_the_messages_that_have_to_be_parked() {
    let (world, wire) = World::of(&topology()).await.wired().await;
    let good = world.orders("good", 1_000, 0).await;
    let full = json!({ "max-length": 10, "overflow": "reject-publish" });
    world.policy("policies", "full", r"^orders\.parked$", full).await;
    world.until_policy("orders.parked", "full").await;
    let process = world.started(|_| {}).await;
    let garbage: Vec<String> = (0..1_000).map(|n| format!("{{garbage {n}")).collect();
    wire.publish_all("orders.dlx", "1h.unpaid", &garbage).await;
    wire.publish_all("orders.dlx", "1h.unpaid", &good).await;
    world.until_closed(1_000).await;
    wire.until_ready("orders.unpaid", 0).await;
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());

    world.delete("policies", "full").await;
    // What the broker itself was to park and the full queue refused it keeps, and tries again in its own time.
    let safe = async || {
        let kept = world.count("orders.unpaid", "messages_dlx").await.unwrap_or_default();
        kept + u64::from(wire.ready("orders.parked").await)
    };
    until("all parked, or kept for it", safe, |safe| *safe == 1_000).await;
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
}
