//! A message that kills each worker that receives it: the broker parks it, with the messages that were prefetched with it.

use crate::support::{World, until, world::TOPOLOGY};

/// Delivery limit of a message; each worker that dies uses one delivery.
const LIMIT: u32 = 3;
const GOOD: usize = 20;

/// Each worker is killed while it closes the culprit's order. The sweep closes the orders that were parked with it.
#[apply(world_test)]
async fn a_message_that_kills_its_workers_is_parked() {
    let (world, wire) =
        World::of(&format!("{TOPOLOGY}\n[queues]\ndelivery_limit = {LIMIT}\n")).await.wired().await;
    let mut orders = world.orders("o", GOOD, 0).await;
    orders.splice(GOOD / 2..GOOD / 2, world.orders("culprit", 1, 0).await);
    let key = format!("hashtext('{}')", world.schema);
    let stall = format!(
        "CREATE FUNCTION stall() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             WHILE NOT pg_try_advisory_xact_lock_shared({key}) LOOP PERFORM pg_sleep(0.01); END LOOP;
             RETURN NEW;
         END $$;
         CREATE TRIGGER stall BEFORE UPDATE ON orders FOR EACH ROW
         WHEN (NEW.status = 'closed' AND NEW.id LIKE 'culprit-%') EXECUTE FUNCTION stall()"
    );
    world.sql(&stall).await;
    let mut client = world.store.client().await.unwrap();
    let stalled = client.transaction().await.unwrap();
    stalled.batch_execute(&format!("SELECT pg_advisory_xact_lock({key})")).await.unwrap();
    wire.publish_all("orders.dlx", "30m.unpaid", &orders).await;
    let parked = async || wire.ready("orders.parked").await;
    for _ in 0..=LIMIT {
        let mut process = world.started(|_| {}).await;
        until("it is in hand", async || world.somebody_waits().await, |waits| *waits).await;
        process.kill();
        world.terminate_waiting().await;
        // The broker has noticed the lost connections: their messages are requeued or parked.
        let left = async || {
            let left = wire.ready("orders.unpaid").await + parked().await;
            i64::from(left) + world.closed().await
        };
        until("all are back", left, |left| usize::try_from(*left).unwrap() > GOOD).await;
    }
    until("it is parked", parked, |parked| *parked > 0).await;
    stalled.rollback().await.unwrap();
    let _process = world
        .started(|command| {
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "100ms");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "1s");
        })
        .await;
    world.until_closed(GOOD + 1).await;
    world.until_empty("orders.unpaid").await;
    let parked = world.parked(parked().await as usize).await;
    assert!(parked.iter().any(|message| message.text() == "culprit-0"), "{parked:?}");
    world.assert_invariants().await;
}
