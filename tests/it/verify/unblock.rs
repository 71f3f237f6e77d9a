//! Dead letters that stand still, what holds them, and how they are freed, on the real broker.

use serde_json::json;

use super::applied;
use crate::support::{World, until};

/// More than the slots of a queue's dead letter worker: 32 by default, 1,000 on our brokers.
const MANY: usize = 1_040;
/// `unblock` waits for the end as long as counts take to settle. A broker that is slow is no reason to give up.
const LATE: (&str, &str) = ("OVERDUE_BROKER__STATISTICS_INTERVAL", "30s");

/// A world whose due exchange has no alternate and no queue for `unpaid`, with all of them held in level 1s.
async fn blocked() -> World {
    let world = applied().await;
    world.delete("exchanges", "orders.dlx").await;
    world.exchange("orders.dlx", "topic", json!({})).await;
    world.bind("orders.dlx", "orders.unshipped", "#.unshipped").await;
    world.publish_to("orders.in", "1s.unpaid", MANY).await;
    held(&world, MANY as u64).await;
    world
}

async fn held(world: &World, count: u64) {
    let look = async || world.count("orders.delay.1s", "messages_dlx").await;
    until("dead letters held", look, |held| *held == Some(count)).await;
}

/// Takes messages until there are `count`.
async fn arrived(world: &World, queue: &str, count: usize) {
    let mut seen = 0;
    let look = async || {
        seen += world.take(queue).await.len();
        seen
    };
    until(&format!("{count} messages in {queue}"), look, |seen| *seen == count).await;
}

#[apply(world_test)]
async fn stuck_then_mended_then_freed() {
    let world = blocked().await;
    let run = world.overdue(&["verify"]);
    assert_eq!(run.code, Some(2), "{run}");
    let apart = world.management().statistics_interval().counts_settle();
    let apart = format!("({}s earlier:", apart.as_secs());
    let shown = run.stdout.replace(&world.vhost, "VHOST").replace(&apart, "(<seconds> earlier:");
    insta::assert_snapshot!("stuck", shown.clone());

    // Nobody can be asked.
    let run = world.overdue(&["unblock", "orders.delay.1s"]);
    assert_eq!(run.code, Some(64), "{run}");
    assert!(run.stdout.contains("holds 1040 dead letters"), "{run}");

    // Not mended: nothing comes free, and the reason is told.
    let run = world.overdue(&["unblock", "orders.delay.1s", "--yes"]);
    assert_eq!(run.code, Some(1), "{run}");
    insta::assert_snapshot!("not_mended", format!("{}{}", run.stdout, run.stderr));

    // Mended: the broker alone would take up to 180 s.
    world.bind("orders.dlx", "orders.unpaid", "#.unpaid").await;
    let (_, printed) = shown.split_once("fix that, then run: ").unwrap();
    let run = world.typed(printed.lines().next().unwrap());
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.ends_with("freed 1040 of 1040 dead letters of orders.delay.1s\n"), "{run}");
    arrived(&world, "orders.unpaid", MANY).await;
    assert_eq!(world.policies().await.len(), 0, "the policy is taken away again");
}

#[apply(world_test)]
async fn a_policy_that_applies_is_kept() {
    let world = blocked().await;
    // With a higher priority than usual, and no part of it in the queue's arguments.
    let definition = json!({ "max-length": 123_456, "overflow": "reject-publish" });
    world.policy("policies", "limit", r"^orders\.delay", definition.clone()).await;
    let look = async || {
        world.management().stats_and_policies().await.unwrap()["orders.delay.1s"].policy.clone()
    };
    until("the policy applies", look, |policy| policy.as_deref() == Some("limit")).await;
    // The policy itself made the broker try once more: still no route.
    held(&world, MANY as u64).await;
    world.bind("orders.dlx", "orders.unpaid", "#.unpaid").await;
    let run = world.overdue_with(&["unblock", "orders.delay.1s", "--yes"], &[LATE]);
    assert_eq!(run.code, Some(0), "{run}");
    arrived(&world, "orders.unpaid", MANY).await;
    let left = world.policies().await;
    assert_eq!(left.len(), 1);
    assert_eq!(left["limit"], definition);
}

#[apply(world_test)]
async fn a_full_queue_stops_its_levels() {
    let world = applied().await;
    world.policy("policies", "cap", r"^orders\.unpaid$", json!({ "max-length": 1 })).await;
    world.until_policy("orders.unpaid", "cap").await;
    // The limit is soft: what is handed on at once is taken or refused at once.
    world.publish_to("orders.in", "1s.unpaid", 2 * MANY).await;
    let look = async || world.count("orders.delay.1s", "messages_dlx").await;
    until("dead letters held", look, |held| held.is_some_and(|held| held >= MANY as u64)).await;
    let look = async || world.count("orders.unpaid", "messages").await;
    until("the target's count", look, |count| count.is_some_and(|count| count > 0)).await;
    let run = world.overdue(&["verify"]);
    assert_eq!(run.code, Some(2), "{run}");
    let blocker = "queue orders.unpaid is full (max-length 1 is reached) and refuses more. Nothing leaves this queue \
                   any more";
    assert!(run.stdout.contains(blocker), "{run}");

    // Room again: the broker tries what was refused only three minutes after its last try.
    world.delete("policies", "cap").await;
    world.take("orders.unpaid").await;
    let run = world.overdue(&["unblock", "orders.delay.1s", "--yes"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("three minutes after its last try"), "{run}");
}

#[apply(world_test)]
async fn only_our_queues() {
    let world = applied().await;
    world.queue("orders.report", json!({ "x-queue-type": "quorum" })).await;
    for queue in ["orders.report", "orders.delay.7m", "audit"] {
        let run = world.overdue(&["unblock", queue, "--yes"]);
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("is not one of topology orders"), "{run}");
    }
    let run = world.overdue(&["unblock", "orders.delay.1s", "--yes"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("holds no dead letters"), "{run}");
    assert!(world.policies().await.is_empty());
}

#[apply(world_test)]
async fn a_policy_that_an_unblock_left_behind() {
    let world = applied().await;
    let name = "orders.unblock.orders.delay.1s";
    let same = json!({ "overflow": "reject-publish" });
    world.policy("policies", name, r"^orders\.delay\.1s$", same).await;
    let look = async || world.overdue(&["verify", "-o", "json"]);
    let run = until("a finding", look, |run| run.code == Some(2)).await;
    assert_eq!(run.findings(), ["warning left-over-policy queue orders.delay.1s"]);
    let run = world.overdue(&["unblock", "orders.delay.1s", "--yes"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(world.policies().await.is_empty());
    let look = async || world.overdue(&["verify"]);
    until("no finding", look, |run| run.code == Some(0)).await;
}

/// Verify takes no more than the `management` tag; unblock sets a policy.
#[apply(world_test)]
async fn rights() {
    let world = applied().await;
    let (reader, policymaker) = (world.user("management").await, world.user("policymaker").await);
    for user in [&reader, &policymaker] {
        world.permit(user, [r"^orders\.", r"^orders\.", r"^orders\."]).await;
        let run = world.overdue_as(&["verify", "--probe", "--within", "20s"], user);
        assert_eq!(run.code, Some(0), "{run}");
    }
    let name = "orders.unblock.orders.delay.1s";
    let same = json!({ "overflow": "reject-publish" });
    world.policy("policies", name, r"^orders\.delay\.1s$", same).await;
    let look = async || world.overdue(&["verify"]);
    until("a finding", look, |run| run.code == Some(2)).await;
    let run = world.overdue_as(&["unblock", "orders.delay.1s", "--yes"], &reader);
    assert_eq!(run.code, Some(77), "{run}");
    assert!(run.stderr.contains("policymaker"), "{run}");
    let run = world.overdue_as(&["unblock", "orders.delay.1s", "--yes"], &policymaker);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(world.policies().await.is_empty());
}
