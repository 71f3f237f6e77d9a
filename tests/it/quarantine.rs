//! Workers that die again and again: what was only prefetched is not parked for it.

use deadpool_postgres::Transaction;
use overdue::internals::store::Connection;

use crate::support::{World, until, world::TOPOLOGY};

/// Deliveries of one message; each worker that dies is one.
const LIMIT: usize = 8;

fn limited() -> String {
    format!("{TOPOLOGY}\n[queues]\ndelivery_limit = {LIMIT}\n")
}

/// Every statement that closes one of these orders stops until the transaction ends.
async fn stall<'a>(world: &World, client: &'a mut Connection, which: &str) -> Transaction<'a> {
    let key = format!("hashtext('{}')", world.schema);
    let function = format!(
        "CREATE FUNCTION stall_all() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             WHILE NOT pg_try_advisory_xact_lock_shared({key}) LOOP PERFORM pg_sleep(0.01); END LOOP;
             RETURN NEW;
         END $$;
         CREATE TRIGGER stall_all BEFORE UPDATE ON orders FOR EACH ROW
         WHEN (NEW.status = 'closed' AND NEW.id LIKE '{which}') EXECUTE FUNCTION stall_all()"
    );
    world.sql(&function).await;
    let transaction = client.transaction().await.unwrap();
    transaction.batch_execute(&format!("SELECT pg_advisory_xact_lock({key})")).await.unwrap();
    transaction
}

/// If all were prefetched each time, the broker would park all of them with the ninth connection that is lost.
#[apply(world_test)]
async fn good_messages_survive_more_workers_that_die_with_them_than_the_limit() {
    let world = World::of(&limited()).await;
    let wire = world.wire().await;
    let orders = world.orders("o", 100, 0).await;
    let mut client = world.store.client().await.unwrap();
    let stalled = stall(&world, &mut client, "%").await;
    wire.publish_all("orders.dlx", "30m.unpaid", &orders).await;
    let ready = async || wire.ready("orders.unpaid").await;
    for _ in 0..LIMIT + 3 {
        let mut process = world.started(|_| {}).await;
        let in_hand = async || {
            let alone = process.logged("one at a time") > 0;
            (alone, wire.ready("orders.unpaid").await)
        };
        until("some are in hand", in_hand, |(alone, ready)| *ready == 0 || *alone && *ready < 100)
            .await;
        process.kill();
        world.terminate_waiting().await;
        until("all are back", ready, |ready| *ready == 100).await;
    }
    assert_eq!(wire.ready("orders.parked").await, 0);
    stalled.rollback().await.unwrap();
    let _process = world.started(|_| {}).await;
    world.until_closed(100).await;
    world.until_empty("orders.unpaid").await;
    world.parked(0).await;
    world.assert_invariants().await;
}

/// A message that ends each worker that takes it: killed here as soon as it is being closed.
#[apply(world_test)]
async fn a_message_that_kills_its_workers_is_parked_alone() {
    let world = World::of(&limited()).await;
    let wire = world.wire().await;
    let mut orders = world.orders("o", 100, 0).await;
    orders.splice(50..50, world.orders("culprit", 1, 0).await);
    let mut client = world.store.client().await.unwrap();
    let stalled = stall(&world, &mut client, "culprit-%").await;
    wire.publish_all("orders.dlx", "30m.unpaid", &orders).await;
    let mut deaths = 0;
    while wire.ready("orders.parked").await == 0 {
        let mut process = world.started(|_| {}).await;
        let in_hand = async || (world.somebody_waits().await, wire.ready("orders.parked").await);
        until("it is in hand", in_hand, |(waiting, parked)| *waiting || *parked > 0).await;
        process.kill();
        world.terminate_waiting().await;
        deaths += 1;
        assert!(deaths <= LIMIT + 3, "it is not parked");
        // Lost connections are found, and what was on them is back or parked.
        let left = async || {
            let left =
                i64::from(wire.ready("orders.unpaid").await + wire.ready("orders.parked").await);
            left + world.closed().await
        };
        until("all are back", left, |left| *left >= 101).await;
    }
    stalled.rollback().await.unwrap();
    let _process = world.started(|_| {}).await;
    world.until_closed(100).await;
    world.until_empty("orders.unpaid").await;
    let parked = world.parked(1).await.remove(0);
    // Its order is free again, and may have been closed without its message meanwhile.
    assert_eq!(parked.text(), "culprit-0");
    world.assert_invariants().await;
}
