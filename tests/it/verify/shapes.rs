//! Objects that are missing or have another shape, on the real broker.

use overdue::internals::topology::Topology;
use reqwest::Method;
use serde_json::json;

use super::{applied, empty};
use crate::support::samples::{TWO_TIMEOUTS, two_timeouts};

#[apply(world_test)]
async fn noop() {
    let world = applied().await;
    let run = world.overdue(&["verify"]);
    assert_eq!(run.code, Some(0), "{run}");
    assert_eq!(run.stdout, "OK: topology `orders` matches the broker, 6 queues\n");
    assert_eq!(run.stderr, "");
}

#[apply(world_test)]
async fn an_empty_virtual_host_lacks_everything() {
    let world = empty().await;
    let found = world.findings();
    assert_eq!(found.len(), 11, "5 exchanges, 6 queues, no binding told twice: {found:#?}");
    assert!(found.iter().all(|line| line.starts_with("error missing-")), "{found:#?}");
}

/// Publishers are refused by it.
#[apply(world_test)]
async fn an_internal_exchange() {
    let world = applied().await;
    world.delete("exchanges", "orders.events").await;
    let body = json!({ "type": "topic", "durable": true, "internal": true });
    world.call(Method::PUT, "exchanges", &["orders.events"], body).await;
    assert_eq!(world.findings(), ["error changed-exchange exchange orders.events"]);
}

/// Each kind of difference at once; `tests/pure/verify` has them one by one.
#[apply(world_test)]
async fn objects_that_are_gone_or_have_another_shape_are_found_and_a_binding_is_put_back() {
    let world = applied().await;
    world.unbind("orders.dlx", "orders.unpaid", "#.unpaid").await;
    assert_eq!(world.findings(), ["error missing-binding queue orders.unpaid"]);
    world.apply(&two_timeouts()).await;
    assert_eq!(world.overdue(&["verify"]).code, Some(0));

    world.delete("queues", "orders.delay.30m").await;
    world.delete("queues", "orders.delay.3s").await;
    // A level without at-least-once, and with another TTL than its name says.
    let arguments = json!({
        "x-queue-type": "quorum", "x-message-ttl": 2000, "x-dead-letter-exchange": "orders.dlx",
    });
    world.queue("orders.delay.3s", arguments).await;
    world.bind("orders.in", "orders.delay.3s", "3s.*").await;
    // A business queue of somebody else, and an exchange without its alternate.
    world.delete("queues", "orders.unpaid").await;
    world.queue("orders.unpaid", json!({})).await;
    world.delete("exchanges", "orders.dlx").await;
    world.exchange("orders.dlx", "topic", json!({})).await;
    world.bind("orders.dlx", "orders.unpaid", "#.unpaid").await;
    world.bind("orders.dlx", "orders.unshipped", "#.unshipped").await;
    let mut found = world.findings();
    found.sort_unstable();
    let expected = [
        "error changed-exchange exchange orders.dlx",
        "error changed-queue queue orders.delay.3s",
        "error changed-queue queue orders.unpaid",
        "error missing-queue queue orders.delay.30m",
    ];
    assert_eq!(found, expected);
    let run = world.overdue(&["verify"]);
    let what = "x-dead-letter-strategy: broker has not set, topology wants at-least-once; x-message-ttl: broker \
                has 2000, topology wants 2250; x-overflow: broker has not set, topology wants reject-publish\n";
    assert!(run.stdout.contains(what), "{run}");
}

#[apply(world_test)]
async fn what_drains_is_a_note() {
    let world = applied().await;
    world.publish_to("orders.in", "30m.unpaid", 3).await;
    let retired = world.management();
    // Unbinding and retiring is what apply does with a level that is no longer in the file.
    let shorter = Topology::parse(
        &TWO_TIMEOUTS
            .replace(r#""30m"]"#, r#""15m"]"#)
            .replace(r#"after = "30m""#, r#"after = "15m""#),
    )
    .unwrap();
    world.apply(&shorter).await;
    let observed = retired.observe().await.unwrap();
    let stats = retired.stats_and_policies().await.unwrap();
    let found = overdue::internals::verify::findings(
        &shorter,
        &observed,
        &stats,
        jiff::Timestamp::UNIX_EPOCH,
    );
    assert!(!overdue::internals::verify::is_wrong(&found), "{found:#?}");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].subject.to_string(), "queue orders.delay.30m");
    // With the old file the level is missing both bindings, and the new one is on its way out.
    let with_the_old_file = world.findings();
    let missing = "error missing-binding queue orders.delay.30m";
    let retired = "warning retired-queue queue orders.delay.15m";
    assert_eq!(with_the_old_file[..4], [missing, missing, retired, retired]);
    // Empty, or not counted yet.
    assert!(with_the_old_file[4..].iter().all(|line| line.starts_with("note ")));
}
