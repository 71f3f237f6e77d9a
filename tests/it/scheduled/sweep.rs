//! The sweep and the notices that were never confirmed.

use overdue::internals::config::WorkerSettings;

use crate::support::{
    RunningWorker, World,
    pages::{get, metrics, sum},
    until,
    worker::{millis, settings},
};

/// A worker that sweeps all the time what has no notice on its way, and whose notices the broker never confirms.
async fn unconfirmed(world: &World) -> RunningWorker {
    let user = world.user("").await;
    world.permit(&user, [".*", ".*", ".*"]).await;
    world.permit_keys(&user, "orders.again", "^$").await;
    let settings = WorkerSettings { sweep_every: millis("100ms"), ..settings() };
    world.worker_at(world.address_of(Some(&user)), &world.services.database_url(None), settings)
}

/// It is known that no message is on its way for them; for all others the grace period is waited for.
#[apply(world_test)]
async fn the_sweep_looks_first_at_notices_that_were_never_confirmed() {
    let world = World::new().await;
    world.knows_timeouts().await;
    world.orders("never-confirmed", 700, -10_000).await;
    world.orders("paid", 3, 60_000).await;
    for n in 0..3 {
        assert!(world.pay(&format!("paid-{n}")).await);
    }
    world.sql("UPDATE orders SET due_at = now() - interval '10 s' WHERE status = 'paid'").await;
    world.schedule_all("unpaid").await;
    // Without a row; their messages may come.
    world.orders("others", 5, -10_000).await;
    // Neither over for long enough, nor known to the database.
    world.sql("SELECT schedule('soon', 'unpaid', '1 hour'), schedule_at('unknown', 'unpaid', now() - interval '10 s')").await;
    let worker = unconfirmed(&world).await;
    world.until_closed(700).await;
    // What is final is forgotten.
    world.until_rows("scheduled_notices", 2).await;
    assert_eq!(world.closed().await, 700);
    world.assert_invariants().await;
    assert_eq!(worker.stop().await.swept, 700);
}

/// After a failover ids are given out again.
#[apply(world_test)]
async fn the_sweep_forgets_no_notice_that_has_the_number_of_one_it_has_read() {
    let world = World::new().await;
    world.knows_timeouts().await;
    world.orders("read", 2, -10_000).await;
    world.schedule_all("unpaid").await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, "read-0").await;
    let worker = unconfirmed(&world).await;
    world.until_stalled().await;
    world
        .sql("UPDATE scheduled_notices SET order_id = 'another', due_at = now() + interval '1 h' WHERE order_id = 'read-0'")
        .await;
    held.commit().await.unwrap();
    world.until_rows("scheduled_notices WHERE order_id = 'read-1'", 0).await;
    assert_eq!(world.rows_of("scheduled_notices WHERE order_id = 'another'").await, 1);
    worker.stop().await;
}

/// As `VACUUM FULL` does, or a change of the table: it is not the table that overdue orders are found in.
#[apply(world_test)]
async fn a_lock_on_the_notices_stops_neither_the_sweep_nor_readiness() {
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let locked = client.transaction().await.unwrap();
    locked.batch_execute("LOCK TABLE scheduled_notices IN ACCESS EXCLUSIVE MODE").await.unwrap();
    world.orders("lost", 5, -10_000).await;
    let (process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "1s");
        })
        .await;
    world.until_closed(5).await;
    assert_eq!(process.logged("scheduled_notices cannot be read"), 1, "{}", process.log());
    let failed =
        async || sum(&metrics(address).await, "overdue_look_failures_total", &["at=\"database\""]);
    until("the notices could not be counted", failed, |failed| *failed > 0.5).await;
    until("ready", async || get(address, "/readyz").await, |page| page.status == 200).await;
    locked.rollback().await.unwrap();
}
