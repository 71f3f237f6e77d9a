//! `overdue remove`, on real services: all of a topology, nothing of anybody else, and nothing that waits.

use overdue::internals::topology::Topology;
use serde_json::json;

use crate::support::{World, samples::TWO_TIMEOUTS, until};

/// A neighbour in the same virtual host, whose name begins with ours, with a message in a level.
async fn with_a_neighbour(world: &World) -> Topology {
    let theirs = TWO_TIMEOUTS.replace("\"orders\"", "\"orders.eu\"");
    let theirs = Topology::parse(&theirs).unwrap();
    world.apply(&theirs).await;
    world.publish_to("orders.eu.in", "30m.unpaid", 1).await;
    world.queue("orders.refunds", json!({})).await;
    theirs
}

#[tokio::test(flavor = "multi_thread")]
async fn all_of_a_topology_goes_and_its_neighbours_stay() {
    let world = World::empty().await;
    let theirs = with_a_neighbour(&world).await;
    let alone = world.own_objects().await;
    world.apply(&world.topology).await;
    let wire = world.wire().await;
    wire.bind("orders.refunds", "orders.events", "#").await;
    world.until_all_counted().await;
    let unasked = world.overdue(&["remove"]);
    assert_eq!(unasked.code, Some(64), "{unasked}");
    let removed = world.overdue(&["remove", "--yes"]);
    assert_eq!(removed.code, Some(0), "{removed}");
    insta::assert_snapshot!(world.shown(&removed));
    assert_eq!(world.own_objects().await, alone);
    assert_eq!(wire.ready(&format!("{}.delay.30m", theirs.name)).await, 1);
    let again = world.overdue(&["remove"]);
    assert_eq!(again.code, Some(0), "{again}");
    insta::assert_snapshot!("again", world.shown(&again));
}

/// With a worker at work, and with messages, until they are given up.
#[tokio::test(flavor = "multi_thread")]
async fn what_is_in_use_or_holds_messages_is_refused() {
    let world = World::new().await;
    world.publish_to("orders.in", "30m.unpaid", 3).await;
    world.until_all_counted().await;
    let mut worker = world.started(|_| {}).await;
    let before = world.own_objects().await;
    let used = world.overdue(&["remove", "--yes", "--discard-waiting"]);
    assert_eq!(used.code, Some(1), "{used}");
    assert!(used.stdout.contains("orders.unpaid is consumed"), "{used}");
    worker.kill();
    let refused = async || world.overdue(&["remove", "--yes"]);
    let refused =
        until("the consumer gone", refused, |it| !it.stdout.contains("is consumed")).await;
    assert_eq!(refused.code, Some(1), "{refused}");
    insta::assert_snapshot!(world.shown(&refused));
    assert_eq!(world.own_objects().await, before);
    let lost = world.overdue(&["remove", "--yes", "--discard-waiting", "-o", "json"]);
    assert_eq!((lost.code, &lost.json()["left"]), (Some(0), &json!([])), "{lost}");
    assert!(world.own_objects().await.queues.is_empty());
}

/// What the user's tables need is not dropped, and neither are they.
#[tokio::test(flavor = "multi_thread")]
async fn the_tables_go_on_request_and_the_users_stay() {
    let world = World::new().await;
    let orders = world.orders("o", 1, 0).await;
    let trigger = "CREATE TRIGGER later AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION schedule_row('unpaid', 'id', 'due_at')";
    world
        .sql(&format!(
            "{trigger}; INSERT INTO outbox (event, order_id) VALUES ('order.closed', '{}')",
            orders[0]
        ))
        .await;
    world.until_all_counted().await;
    let remove = ["remove", "--tables", "--yes"];
    let waits = world.overdue(&remove);
    assert_eq!(waits.code, Some(1), "{waits}");
    insta::assert_snapshot!("tables_with_rows", world.shown(&waits));
    world.sql("DELETE FROM outbox").await;
    let depends = world.overdue(&remove);
    assert_eq!(depends.code, Some(1), "{depends}");
    assert!(depends.stderr.contains("trigger later on table orders depends on"), "{depends}");
    assert!(world.own_objects().await.queues.is_empty());
    world.sql("DROP TRIGGER later ON orders").await;
    let removed = world.overdue(&remove);
    assert_eq!(removed.code, Some(0), "{removed}");
    let left = "SELECT count(*) FROM pg_class WHERE relnamespace = current_schema()::regnamespace AND relkind = 'r'
                    AND relname NOT IN ('orders', 'order_items', 'stock')";
    assert_eq!(world.number(left).await, 0, "{removed}");
    let left = "SELECT count(*) FROM pg_proc WHERE pronamespace = current_schema()::regnamespace
                    AND proname <> 'orders_refuse_transition'";
    assert_eq!(world.number(left).await, 0, "{removed}");
    assert_eq!(world.number("SELECT count(*) FROM orders").await, 1);
}
