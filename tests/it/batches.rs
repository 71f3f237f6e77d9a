//! An order of a batch fails, or another session locks it: the worker isolates it, and closes the others.

use overdue::internals::config::WorkerSettings;
use tokio_postgres::error::SqlState;

use crate::support::{World, until, worker::settings};

/// A refusal by the order service's own trigger is that row's fault as well. The reason becomes a header, which must fit into
/// one frame.
#[apply(world_test)]
async fn a_row_that_a_trigger_refuses_is_retried_and_parked_and_the_others_are_closed() {
    let world = World::new().await;
    let orders = world.orders("o", 40, 0).await;
    world
        .sql(
            "CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN RAISE EXCEPTION 'order % is under review %', NEW.id, repeat('ß', 200000); END $$;
             CREATE TRIGGER refuse BEFORE UPDATE ON orders FOR EACH ROW
             WHEN (NEW.id = 'o-17') EXECUTE FUNCTION refuse()",
        )
        .await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    let worker = world.worker();
    world.until_closed(39).await;
    let parked = world.parked(1).await.remove(0);
    assert_eq!(parked.text(), "o-17");
    let reason = parked.reason();
    assert!(reason.contains("order o-17 is under review"), "{reason}");
    assert!(reason.chars().count() <= 1_000, "{} characters", reason.chars().count());
    worker.until("all counted", |c| c.retried >= 3 && c.parked >= 1).await;
    assert_eq!(worker.stops_after(3, 1).await.closed, 39);
}

#[apply(world_test)]
async fn many_rows_that_fail_leave_the_others_alone() {
    let world = World::new().await;
    let orders = world.orders("o", 60, 0).await;
    world
        .sql(
            "INSERT INTO stock (sku, available, reserved) VALUES ('broken', 0, 0);
             UPDATE order_items SET sku = 'broken' WHERE qty = 2 AND right(order_id, 1) IN ('3', '4')",
        )
        .await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    let worker = world.worker();
    world.until_closed(48).await;
    let parked = world.parked(12).await;
    let reason = parked[0].reason();
    assert!(reason.contains("stock_reserved_check"), "{reason}");
    assert!(reason.ends_with("given up after 3 retries"), "{reason}");
    worker.until("all counted", |c| c.retried >= 36 && c.parked >= 12).await;
    assert_eq!(worker.stops_after(36, 12).await.closed, 48);
}

#[apply(world_test)]
async fn a_payment_that_holds_its_row_for_long_holds_up_nobody_else_and_wins() {
    let world = World::new().await;
    let orders = world.orders("o", 16, 0).await;
    let mut client = world.store.client().await.unwrap();
    let payment = client.transaction().await.unwrap();
    let paid = payment.query_opt(include_str!("../../sql/pay.sql"), &[&"o-5"]).await.unwrap();
    assert!(paid.is_some());

    // The order's own items use the stock rows as well, so the other orders get another row.
    let others: Vec<String> = orders.iter().filter(|id| *id != "o-5").cloned().collect();
    world.sql("INSERT INTO stock (sku, available, reserved) VALUES ('others', 0, 1000)").await;
    world
        .sql(
            "DELETE FROM order_items WHERE order_id <> 'o-5' AND qty = 1;
             UPDATE order_items SET sku = 'others' WHERE order_id <> 'o-5'",
        )
        .await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    let worker = world.worker();
    until("the others closed", async || world.closed().await, |closed| *closed == 15).await;
    assert_eq!(others.len(), 15);

    payment.commit().await.unwrap();
    let counts = async || worker.counts();
    until("settled", counts, |c| c.already_final == 1).await;
    assert_eq!(world.status("o-5").await, "paid");
    worker.stops_after(0, 0).await;
}

/// Missing tables need a person: no retry is used, and no message is parked meanwhile.
#[apply(world_test)]
async fn tables_that_are_missing_for_a_while_burn_no_retry_and_park_nothing() {
    let world = World::new().await;
    let orders = world.orders("o", 10, 0).await;
    let wire = world.wire().await;
    let along = wire.listen("orders.in", "#").await;
    wire.bind(&along, "orders.again", "#").await;
    let mut worker = world.started(|_| {}).await;
    world.sql("ALTER TABLE orders RENAME TO away").await;
    let missing = world.store.client().await.unwrap().query("SELECT FROM orders", &[]).await;
    assert_eq!(missing.unwrap_err().code(), Some(&SqlState::UNDEFINED_TABLE));
    wire.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    worker.until_logged("orders cannot be closed; their messages are kept").await;
    world.sql("ALTER TABLE away RENAME TO orders").await;
    world.until_closed(10).await;
    assert_eq!(wire.ready(&along).await, 0);
    world.parked(0).await;
    world.assert_invariants().await;
}

/// Each batch is settled when it ends: a slow batch uses only one of `in_flight`.
#[apply(world_test)]
async fn a_batch_that_takes_long_holds_up_no_other_batch() {
    let world = World::new().await;
    let orders = world.orders("o", 40, 0).await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, "o-0").await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    let few = WorkerSettings { batch_size: 1, in_flight: 3, ..settings() };
    let worker = world.worker_with(few);
    world.until_closed(39).await;
    assert_eq!(world.status("o-0").await, "unpaid");
    held.commit().await.unwrap();
    world.until_closed(40).await;
    assert_eq!(worker.stops_after(0, 0).await.closed, 40);
    world.assert_invariants().await;
}
