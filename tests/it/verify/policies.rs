//! Policies that beat the topology, on the real broker. RabbitMQ 4.0 tells of a policy only after five seconds, of
//! each queue by itself.

use overdue::internals::plan::QueueStats;
use serde_json::json;

use super::applied;
use crate::support::{World, until};

/// Every queue of the topology: three levels, two timeouts, the parking lot.
const ALL: usize = 6;

/// Waits until the broker tells of a policy on so many queues.
async fn until_applied(world: &World, count: usize) {
    let look = async || {
        let stats = world.management().stats_and_policies().await.unwrap();
        let has_policy =
            |queue: &&QueueStats| queue.policy.is_some() || queue.operator_policy.is_some();
        stats.values().filter(has_policy).count()
    };
    until("the policies apply", look, |seen| *seen == count).await;
}

async fn in_order(world: &World) {
    let look = async || world.overdue(&["verify"]);
    until("no finding", look, |run| run.code == Some(0)).await;
}

#[apply(world_test)]
async fn a_shorter_ttl() {
    let world = applied().await;
    world.policy("policies", "short", r"^orders\.delay", json!({ "message-ttl": 3000 })).await;
    until_applied(&world, 3).await;
    // 1s and 3s are as short already: only 30m is touched.
    let run = world.overdue(&["verify"]);
    assert_eq!(run.code, Some(2), "{run}");
    let stdout = run.stdout.replace(&world.vhost, "VHOST");
    insta::assert_snapshot!(stdout);
    world.delete("policies", "short").await;
    in_order(&world).await;
}

#[apply(world_test)]
async fn drop_head_takes_at_least_once_away() {
    let world = applied().await;
    for kind in ["policies", "operator-policies"] {
        world.policy(kind, "catch-all", ".*", json!({ "overflow": "drop-head" })).await;
        let object = match kind {
            "policies" => "policy catch-all",
            _ => "operator policy catch-all",
        };
        until_applied(&world, ALL).await;
        assert_eq!(world.findings(), [format!("error policy {object}")]);
        world.delete(kind, "catch-all").await;
        in_order(&world).await;
    }
}

#[apply(world_test)]
async fn limits_and_expiry() {
    let world = applied().await;
    let definition = json!({
        "max-length": 1000, "expires": 3_600_000, "delivery-limit": 5, "dead-letter-routing-key": "x",
    });
    world.policy("policies", "catch-all", r"^orders\.", definition).await;
    until_applied(&world, ALL).await;
    let run = world.overdue(&["verify"]);
    assert_eq!(run.code, Some(2), "{run}");
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

#[apply(world_test)]
async fn what_changes_nothing_is_not_told() {
    let world = applied().await;
    let definition = json!({
        "message-ttl": 3_000_000_000_u64, "overflow": "reject-publish", "dead-letter-exchange": "elsewhere",
        "dead-letter-strategy": "at-most-once", "delivery-limit": 20, "max-in-memory-length": 5,
        "queue-leader-locator": "balanced",
    });
    world.policy("policies", "levels", r"^orders\.delay\.", definition).await;
    let business = json!({
        "overflow": "reject-publish", "dead-letter-exchange": "elsewhere", "delivery-limit": 50,
    });
    world.policy("policies", "business", r"^orders\.un", business).await;
    until_applied(&world, 5).await;
    let run = world.overdue(&["verify"]);
    assert_eq!(run.code, Some(0), "{run}");
}

/// The keys came with 4.3.1; an older broker refuses them, so there is nothing that verify could find.
#[apply(world_test)]
async fn delayed_retry() {
    let world = applied().await;
    let definition = json!({ "delayed-retry-type": "all", "delayed-retry-min": 1000 });
    let set = world.try_policy("policies", "retry", r"^orders\.un", definition).await;
    if world.services.broker_version().await < "4.3.1".parse().unwrap() {
        let refused = set.unwrap_err();
        assert!(refused.contains("not recognised policy settings"), "{refused}");
        return;
    }
    set.unwrap();
    until_applied(&world, 2).await;
    let run = world.overdue(&["verify"]);
    assert_eq!(run.code, Some(0), "{run}");
    let note = "sets delayed-retry-type to all on queues orders.unpaid, orders.unshipped\n";
    assert!(run.stdout.contains(note), "{run}");
}
