//! Faults that a burst must avoid: waiting for a stopped worker, taking the closing connections, and acking a message that
//! arrived after its order was closed.

use super::bursts::{begin, full_batches, until_in_burst, until_settled};
use crate::support::{World, until};

/// Number of orders; most have a message.
const BURST: usize = 1_000;
const SENT: usize = 700;

/// Counts the requests for a lock that only bursts take.
const COUNTED: &str = "
    CREATE SEQUENCE asked;
    CREATE FUNCTION pg_try_advisory_xact_lock(key bigint) RETURNS boolean VOLATILE LANGUAGE sql
        AS 'SELECT nextval(''asked'') > 0 AND pg_catalog.pg_try_advisory_xact_lock(key)'";
const ASKED: &str = "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM asked";
pub(super) const LOCK: &str = "SELECT pg_catalog.pg_try_advisory_xact_lock(
    hashtextextended('burst close', 'closures'::regclass::oid::bigint))";

/// A worker was paused or cut off in the middle of a burst: its transaction is open and idle.
#[apply(world_test)]
async fn a_worker_that_stands_still_in_a_burst_is_not_waited_for() {
    let world = World::clocked().await;
    world.sql(COUNTED).await;
    let mut other = world.store.client().await.unwrap();
    let lock = other.transaction().await.unwrap();
    assert!(lock.query_one(LOCK, &[]).await.unwrap().get::<_, bool>(0));
    let mut client = world.store.client().await.unwrap();
    let (worker, held) = begin(&world, &mut client, full_batches()).await;
    let orders = world.orders_without_stock("o", SENT).await;
    world.publish("100ms", &orders).await;
    // Messages that do not fill a batch wait for the stalled batch.
    let filled = orders.len() / 500 * 500;
    world.until_closed(1 + filled).await;
    assert!(world.number(ASKED).await > 0, "no burst was begun");
    held.commit().await.unwrap();
    let counts = until_settled(&world, &worker, 2 + SENT as u64).await;
    assert_eq!((counts.closed, counts.burst), (2 + SENT as u64, 0));
    lock.rollback().await.unwrap();
}

/// The order's first message went to another worker.
#[apply(world_test)]
async fn a_message_that_came_after_its_order_was_closed_ahead_is_asked_for() {
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let (worker, held) = begin(&world, &mut client, full_batches()).await;
    let orders = world.orders_without_stock("o", BURST).await;
    world.publish("100ms", &orders[..SENT]).await;
    until_in_burst(&worker, (BURST - SENT) as u64).await;
    held.commit().await.unwrap();
    until_settled(&world, &worker, 2 + SENT as u64).await;
    world
        .sql(
            "ALTER TABLE orders DISABLE TRIGGER orders_transition;
             DELETE FROM closures WHERE order_id LIKE 'o-99_';
             UPDATE orders SET status = 'unpaid', closed_at = NULL, due_at = clock_timestamp() WHERE id LIKE 'o-99_'",
        )
        .await;
    world.publish("100ms", &orders[990..]).await;
    let reopened = "SELECT count(*) FROM closures WHERE order_id LIKE 'o-99_' AND path = 'message'";
    until("closed again", async || world.number(reopened).await, |closed| *closed == 10).await;
    assert_eq!(worker.stop().await.parked, 0);
}

/// Each of two effects has a burst, and the pool has the fewest connections.
#[apply(world_test)]
async fn bursts_leave_connections_to_what_closes() {
    let topology = r#"
name = "orders"
[delay]
levels = ["1s"]
[[timeout]]
name = "unpaid"
after = "1s"
[[timeout]]
name = "unshipped"
after = "1s"
effect = "cancel"
"#;
    let world = World::of(topology).await;
    let unpaid = world.orders_without_stock("unpaid", 5_000).await;
    let paid = world.orders_without_stock("paid", 5_000).await;
    world
        .sql("UPDATE orders SET status = 'paid', paid_at = now(), ship_by = now() WHERE id LIKE 'paid-%'")
        .await;
    let wire = world.wire().await;
    wire.publish_all("orders.dlx", "1s.unpaid", &unpaid).await;
    wire.publish_all("orders.dlx", "1s.unshipped", &paid).await;
    let process = world.started(|command| {
        command.env("OVERDUE_WORKER__BATCH_AGE", "1s");
        command.env("OVERDUE_DATABASE__CONNECTIONS", "6");
        command.env("OVERDUE_LOG__FILTER", "info,overdue=debug");
    });
    let process = process.await;
    world.until_closed(5_000).await;
    let cancelled = async || world.statuses().await.get("cancelled").copied();
    until("cancelled", cancelled, |cancelled| *cancelled == Some(5_000)).await;
    for failure in ["orders cannot be closed", "a burst could not be closed"] {
        assert_eq!(process.logged(failure), 0, "{}", process.log());
    }
    world.assert_invariants().await;
}
