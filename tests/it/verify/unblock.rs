//! Dead letters that stand still, what holds them, and how they are freed, on the real broker.

use std::time::{Duration, Instant};

use serde_json::json;

use super::{place::Place, run::finish};
use crate::support::until;

/// More than the 32 slots of a queue's dead letter worker.
const MANY: usize = 40;

/// A place whose due exchange has no alternate and no queue for `unpaid`, with 40 messages held in level 1s.
async fn blocked() -> Place {
    let place = Place::applied().await;
    place.delete("exchanges", "orders.dlx").await;
    place.exchange("orders.dlx", "topic", json!({})).await;
    place.bind("orders.dlx", "orders.unshipped", "#.unshipped").await;
    place.publish("orders.in", "1s.unpaid", MANY).await;
    held(&place, 40).await;
    place
}

async fn held(place: &Place, count: u64) {
    let look = async || place.count("orders.delay.1s", "messages_dlx").await;
    until("dead letters held", look, |held| *held == Some(count)).await;
}

/// Takes messages until there are `count`.
async fn arrived(place: &Place, queue: &str, count: usize) {
    let mut seen = 0;
    let look = async || {
        seen += place.take(queue).await.len();
        seen
    };
    until(&format!("{count} messages in {queue}"), look, |seen| *seen == count).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn stuck_then_mended_then_freed() {
    let place = blocked().await;
    let run = place.overdue(&["verify"]);
    assert_eq!(run.code, Some(2), "{run}");
    let apart = place.management().statistics_interval().counts_settle();
    let apart = format!("({}s earlier:", apart.as_secs());
    let shown = run.stdout.replace(&place.name, "VHOST").replace(&apart, "(<seconds> earlier:");
    insta::assert_snapshot!("stuck", shown);

    // Not mended: nothing comes free, and the reason is told.
    let run = place.overdue(&["unblock", "orders.delay.1s"]);
    assert_eq!(run.code, Some(1), "{run}");
    insta::assert_snapshot!("not_mended", format!("{}{}", run.stdout, run.stderr));

    // Mended: the broker alone would take up to 180 s.
    place.bind("orders.dlx", "orders.unpaid", "#.unpaid").await;
    let began = Instant::now();
    let run = place.overdue(&["unblock", "orders.delay.1s"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.stdout, "freed 40 of 40 dead letters of orders.delay.1s\n");
    assert!(began.elapsed() < Duration::from_mins(1), "the broker's own retry was waited for");
    arrived(&place, "orders.unpaid", MANY).await;
    assert_eq!(place.policies().await.len(), 0, "the policy is taken away again");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_applies_is_kept() {
    let place = blocked().await;
    // With a higher priority than usual, and no part of it in the queue's arguments.
    let definition = json!({ "max-length": 123_456, "overflow": "reject-publish" });
    place.policy("policies", "limit", r"^orders\.delay", definition.clone()).await;
    let look = async || {
        place.management().stats_and_policies().await.unwrap()["orders.delay.1s"].policy.clone()
    };
    until("the policy applies", look, |policy| policy.as_deref() == Some("limit")).await;
    // The policy itself made the broker try once more: still no route.
    held(&place, 40).await;
    place.bind("orders.dlx", "orders.unpaid", "#.unpaid").await;
    let run = place.overdue(&["unblock", "orders.delay.1s"]);
    assert_eq!(run.code, Some(0), "{run}");
    arrived(&place, "orders.unpaid", MANY).await;
    let left = place.policies().await;
    assert_eq!(left.len(), 1);
    assert_eq!(left["limit"], definition);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_full_queue_stops_its_levels() {
    let place = Place::applied().await;
    place.policy("policies", "cap", r"^orders\.unpaid$", json!({ "max-length": 1 })).await;
    // The limit is soft: what is handed on at once is taken or refused at once.
    place.publish("orders.in", "1s.unpaid", 100).await;
    let look = async || place.count("orders.delay.1s", "messages_dlx").await;
    until("dead letters held", look, |held| held.is_some_and(|held| held > 32)).await;
    let look = async || place.count("orders.unpaid", "messages").await;
    until("the target's count", look, |count| count.is_some_and(|count| count > 0)).await;
    let run = place.overdue(&["verify"]);
    assert_eq!(run.code, Some(2), "{run}");
    let blocker = "queue orders.unpaid is full (max-length 1 is reached) and refuses more. Nothing leaves this queue \
                   any more";
    assert!(run.stdout.contains(blocker), "{run}");

    // Room again: the broker tries what was refused only three minutes after its last try.
    place.delete("policies", "cap").await;
    place.take("orders.unpaid").await;
    let run = place.overdue(&["unblock", "orders.delay.1s"]);
    assert_eq!(run.code, Some(1), "{run}");
    assert!(run.stderr.contains("three minutes after its last try"), "{run}");
}

#[tokio::test(flavor = "multi_thread")]
async fn only_our_queues() {
    let place = Place::applied().await;
    place.queue("orders.report", json!({ "x-queue-type": "quorum" })).await;
    for queue in ["orders.report", "orders.delay.7m", "audit"] {
        let run = place.overdue(&["unblock", queue]);
        assert_eq!(run.code, Some(1), "{run}");
        assert!(run.stderr.contains("is not one of topology orders"), "{run}");
    }
    let run = place.overdue(&["unblock", "orders.delay.1s"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(run.stdout.contains("holds no dead letters"), "{run}");
    assert!(place.policies().await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_policy_that_an_unblock_left_behind() {
    let place = Place::applied().await;
    let name = "orders.unblock.orders.delay.1s";
    let same = json!({ "overflow": "reject-publish" });
    place.policy("policies", name, r"^orders\.delay\.1s$", same).await;
    let look = async || place.overdue(&["verify", "-o", "json"]);
    let run = until("a finding", look, |run| run.code == Some(2)).await;
    assert_eq!(run.findings(), ["warning left-over-policy queue orders.delay.1s"]);
    let run = place.overdue(&["unblock", "orders.delay.1s"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert!(place.policies().await.is_empty());
    let look = async || place.overdue(&["verify"]);
    until("no finding", look, |run| run.code == Some(0)).await;
}

/// Verify takes no more than the `management` tag; unblock sets a policy.
#[tokio::test(flavor = "multi_thread")]
async fn rights() {
    let place = Place::applied().await;
    let (reader, policymaker) = (place.user("management").await, place.user("policymaker").await);
    for user in [&reader, &policymaker] {
        place.permit(user, r"^orders\.", r"^orders\.", r"^orders\.").await;
        let run = finish(place.command(&["verify", "--probe", "--within", "1s"], Some(user)));
        assert_eq!(run.code, Some(0), "{run}");
    }
    let name = "orders.unblock.orders.delay.1s";
    let same = json!({ "overflow": "reject-publish" });
    place.policy("policies", name, r"^orders\.delay\.1s$", same).await;
    let look = async || place.overdue(&["verify"]);
    until("a finding", look, |run| run.code == Some(2)).await;
    let run = finish(place.command(&["unblock", "orders.delay.1s"], Some(&reader)));
    assert_eq!(run.code, Some(77), "{run}");
    assert!(run.stderr.contains("policymaker"), "{run}");
    let run = finish(place.command(&["unblock", "orders.delay.1s"], Some(&policymaker)));
    assert_eq!(run.code, Some(0), "{run}");
    assert!(place.policies().await.is_empty());
}
