//! Bindings that the topology does not have, on the real broker.

use reqwest::Method;
use serde_json::json;

use super::applied;

#[apply(world_test)]
async fn somebody_else_listens() {
    let world = applied().await;
    world.queue("audit", json!({})).await;
    world.bind("orders.dlx", "audit", "#").await;
    world.bind("orders.in", "audit", "#").await;
    world.bind("orders.park", "audit", "").await;
    // Events are for everybody.
    world.bind("orders.events", "audit", "#").await;
    let found = world.findings();
    assert_eq!(
        found,
        [
            "error foreign-subscriber exchange orders.dlx",
            "warning foreign-subscriber exchange orders.in",
            "warning foreign-subscriber exchange orders.park",
        ]
    );
}

#[apply(world_test)]
async fn our_own_objects_in_another_way() {
    let world = applied().await;
    world.bind("orders.in", "orders.delay.3s", "#").await;
    world.bind("orders.in", "orders.unpaid", "now.unpaid").await;
    world.bind("orders.dlx", "orders.unpaid", "#.unshipped").await;
    world.bind("orders.dlx", "orders.delay.3s", "#.again").await;
    let run = world.overdue(&["verify"]);
    assert_eq!(run.code, Some(2), "{run}");
    let stdout = run.stdout.replace(&world.vhost, "VHOST");
    insta::assert_snapshot!(stdout);
}

#[apply(world_test)]
async fn somebody_else_publishes() {
    let world = applied().await;
    world.exchange("legacy", "topic", json!({})).await;
    world.bind("legacy", "orders.unpaid", "paid.late").await;
    let path = ["e", "legacy", "e", "orders.in"];
    world.call(Method::POST, "bindings", &path, json!({ "routing_key": "#" })).await;
    assert_eq!(
        world.findings(),
        [
            "warning foreign-publisher queue orders.unpaid",
            "note foreign-publisher exchange orders.in",
        ]
    );
}

#[apply(world_test)]
async fn what_has_nothing_to_do_with_us_is_left_alone() {
    let world = applied().await;
    world.exchange("orders", "topic", json!({})).await;
    world.exchange("other.dlx", "topic", json!({})).await;
    world.queue("orders.report", json!({})).await;
    world.bind("orders", "orders.report", "#").await;
    world.bind("other.dlx", "orders.report", "#").await;
    world.policy("policies", "reports", r"^orders\.report$", json!({ "message-ttl": 1 })).await;
    let run = world.overdue(&["verify"]);
    assert_eq!(run.code, Some(0), "{run}");
}
