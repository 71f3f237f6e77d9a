//! Policies that beat the topology, on the real broker. RabbitMQ 4.0 tells of a policy only after five seconds.

use serde_json::{Value, json};

use super::{place::Place, wait::until};

/// What verify finds once the policy is known to it.
async fn findings(place: &Place) -> Vec<String> {
    let look = async || place.overdue(&["verify", "-o", "json"]);
    let run = until("drift by policy", look, |run| run.code == Some(2)).await;
    run.findings()
}

async fn in_order(place: &Place) {
    let look = async || place.overdue(&["verify"]);
    until("no drift", look, |run| run.code == Some(0)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_shorter_ttl() {
    let place = Place::applied().await;
    place.policy("policies", "short", r"^orders\.delay", json!({ "message-ttl": 3000 })).await;
    // 1s and 3s are as short already: only 30m is touched.
    let look = async || place.overdue(&["verify"]);
    let run = until("drift by policy", look, |run| run.code == Some(2)).await;
    let stdout = run.stdout.replace(&place.name, "VHOST");
    insta::assert_snapshot!(stdout);
    place.delete("policies", "short").await;
    in_order(&place).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn drop_head_takes_at_least_once_away() {
    let place = Place::applied().await;
    for kind in ["policies", "operator-policies"] {
        place.policy(kind, "catch-all", ".*", json!({ "overflow": "drop-head" })).await;
        let object = match kind {
            "policies" => "policy catch-all",
            _ => "operator policy catch-all",
        };
        assert_eq!(findings(&place).await, [format!("danger policy {object}")]);
        place.delete(kind, "catch-all").await;
        in_order(&place).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn limits_and_expiry() {
    let place = Place::applied().await;
    let definition = json!({
        "max-length": 1000, "expires": 3_600_000, "delivery-limit": 5, "dead-letter-routing-key": "x",
        "delayed-retry-type": "all", "delayed-retry-min": 1000,
    });
    let known = known_here(&place, definition).await;
    place.policy("policies", "catch-all", r"^orders\.", known).await;
    let look = async || place.overdue(&["verify"]);
    let run = until("drift by policy", look, |run| run.code == Some(2)).await;
    for part in [
        "sets max-length to 1000 on queues orders.delay.1s, orders.delay.30m, orders.delay.3s\n",
        "sets max-length to 1000 on queue orders.parked\n",
        "sets expires to 3600000 on queues orders.delay.1s,",
        "sets delivery-limit to 5 on queues orders.unpaid, orders.unshipped\n",
        "sets delivery-limit to 5 on queue orders.parked\n",
        "sets dead-letter-routing-key to x on queues orders.delay.1s,",
    ] {
        assert!(run.stdout.contains(part), "{part}\nnot in\n{run}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_changes_nothing_is_not_told() {
    let place = Place::applied().await;
    let definition = json!({
        "message-ttl": 3_000_000_000_u64, "overflow": "reject-publish", "dead-letter-exchange": "elsewhere",
        "dead-letter-strategy": "at-most-once", "delivery-limit": 20, "max-in-memory-length": 5,
        "queue-leader-locator": "balanced",
    });
    place.policy("policies", "levels", r"^orders\.delay\.", definition).await;
    let business = json!({
        "overflow": "reject-publish", "dead-letter-exchange": "elsewhere", "delivery-limit": 50,
    });
    place.policy("policies", "business", r"^orders\.un", business).await;
    let look = async || {
        let stats = place.management().stats_and_policies().await.unwrap();
        stats.values().filter(|queue| queue.policy.is_some()).count()
    };
    until("both policies apply", look, |count| *count == 5).await;
    in_order(&place).await;
}

/// Without the keys that this broker refuses: delayed retry came with 4.3.
async fn known_here(place: &Place, mut definition: Value) -> Value {
    let settings = definition.as_object_mut().unwrap();
    let version = place.version().await;
    if version.starts_with("4.0") {
        settings.retain(|key, _| !key.starts_with("delayed-retry"));
    }
    definition
}
