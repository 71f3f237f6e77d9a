//! Bindings that the topology does not have, on the real broker.

use reqwest::Method;
use serde_json::json;

use super::place::Place;

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_listens() {
    let place = Place::applied().await;
    place.queue("audit", json!({})).await;
    place.bind("orders.dlx", "audit", "#").await;
    place.bind("orders.in", "audit", "#").await;
    place.bind("orders.park", "audit", "").await;
    // Events are for everybody.
    place.bind("orders.events", "audit", "#").await;
    let found = place.findings();
    assert_eq!(
        found,
        [
            "error foreign-subscriber exchange orders.dlx",
            "warning foreign-subscriber exchange orders.in",
            "warning foreign-subscriber exchange orders.park",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn our_own_objects_in_another_way() {
    let place = Place::applied().await;
    place.bind("orders.in", "orders.delay.3s", "#").await;
    place.bind("orders.in", "orders.unpaid", "now.unpaid").await;
    place.bind("orders.dlx", "orders.unpaid", "#.unshipped").await;
    place.bind("orders.dlx", "orders.delay.3s", "#.again").await;
    let run = place.overdue(&["verify"]);
    assert_eq!(run.code, Some(2), "{run}");
    let stdout = run.stdout.replace(&place.name, "VHOST");
    insta::assert_snapshot!(stdout);
}

#[tokio::test(flavor = "multi_thread")]
async fn somebody_else_publishes() {
    let place = Place::applied().await;
    place.exchange("legacy", "topic", json!({})).await;
    place.bind("legacy", "orders.unpaid", "paid.late").await;
    let path = ["e", "legacy", "e", "orders.in"];
    place.api(Method::POST, "bindings", &path, json!({ "routing_key": "#" })).await;
    assert_eq!(
        place.findings(),
        [
            "warning foreign-publisher queue orders.unpaid",
            "note foreign-publisher exchange orders.in",
        ]
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn what_has_nothing_to_do_with_us_is_left_alone() {
    let place = Place::applied().await;
    place.exchange("orders", "topic", json!({})).await;
    place.exchange("other.dlx", "topic", json!({})).await;
    place.queue("orders.report", json!({})).await;
    place.bind("orders", "orders.report", "#").await;
    place.bind("other.dlx", "orders.report", "#").await;
    place.policy("policies", "reports", r"^orders\.report$", json!({ "message-ttl": 1 })).await;
    let run = place.overdue(&["verify"]);
    assert_eq!(run.code, Some(0), "{run}");
}
