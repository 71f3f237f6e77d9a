//! Orders whose statements never end or are cancelled: no other order waits for them.

use std::time::Duration;

use overdue::internals::{store::orders::Effect, timing::Timing};

use crate::support::{World, orders::WRITTEN, until, worker::settings, world::TOPOLOGY};

use super::bad_rows::{due, refuse, sweeping};

/// Creates a trigger that never ends for some orders.
async fn hang(world: &World, which: &str) {
    world
        .sql(&format!(
            "CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS $$
             BEGIN PERFORM pg_sleep(600); RETURN NEW; END $$;
             CREATE TRIGGER hang BEFORE UPDATE ON orders FOR EACH ROW
             WHEN (NEW.id IN ({which}) AND NEW.status = 'closed') EXECUTE FUNCTION hang()"
        ))
        .await;
}

/// A world whose workers give a part of a slow batch half a second.
async fn world_of_short_parts() -> World {
    let mut world = World::new().await;
    let slow_part = Duration::from_millis(500);
    world.services.timing = Timing { slow_part, ..Timing::often() }.into();
    world
}

/// The database URL with a statement time-out that is short for a test, and that no other statement reaches.
fn impatient(world: &World) -> String {
    world.database_with_statement_timeout("1s")
}

/// The bad rows remain the oldest, and fail first.
#[apply(world_test)]
async fn three_rows_that_exceed_the_statement_time_out_do_not_stop_the_sweep() {
    let world = world_of_short_parts().await;
    hang(&world, "'bad-0', 'bad-1', 'bad-2'").await;
    world.orders("bad", 3, -20_000).await;
    world.orders("o", 20, -10_000).await;
    let worker = world.worker_at(world.address(), &impatient(&world), sweeping());
    world.until_closed(20).await;
    assert_eq!(world.status("bad-0").await, "unpaid");
    let swept = async || worker.counts().swept;
    until("the page is done with", swept, |swept| *swept == 20).await;
    worker.stop().await;
    world.assert_invariants().await;
}

#[apply(world_test)]
async fn three_rows_that_exceed_the_statement_time_out_do_not_hold_up_the_others_of_their_batch() {
    let world = world_of_short_parts().await;
    hang(&world, "'o-0', 'o-1', 'o-2'").await;
    due(&world, 23).await;
    let worker = world.worker_at(world.address(), &impatient(&world), settings());
    world.until_closed(20).await;
    // A batch of the three would take longer than a drain may.
    world.sql("DROP FUNCTION hang CASCADE").await;
    world.until_closed(23).await;
    assert_eq!(worker.stop().await.parked, 0);
    world.assert_invariants().await;
}

/// A row raises the SQLSTATE of a time-out at once: its cancellation proves nothing about the others.
#[apply(world_test)]
async fn a_row_that_is_cancelled_in_each_batch_holds_up_nobody_and_is_not_parked() {
    // Long retries, so that the row is alone when it is retried.
    let retries = [r#"["100ms", "200ms", "300ms"]"#, r#"["1s", "2s", "2s"]"#];
    let world = World::of(&TOPOLOGY.replacen(retries[0], retries[1], 1)).await;
    refuse(&world, &["57014"]).await;
    due(&world, 60).await;
    let worker = world.worker();
    world.until_closed(59).await;
    // The last batch of the others may not be settled yet; after it no order is closed with this one.
    let before = worker.counts();
    let twice = before.retried + before.put_back + 2;
    let counts = async || worker.counts();
    until("tried again alone", counts, |counts| counts.retried + counts.put_back >= twice).await;
    let counts = worker.counts();
    // While others are closed the failure is the row's own, and uses a retry.
    assert!(counts.closed == 59 && counts.retried <= before.retried + 1, "{before:?} {counts:?}");
    world.sql("DROP TRIGGER refuse ON orders").await;
    world.until_closed(60).await;
    assert_eq!(worker.stop().await.parked, 0);
    world.assert_invariants().await;
}

/// An administrator cancels the worker's statement: no order is at fault.
#[apply(world_test)]
async fn a_batch_that_somebody_cancels_is_closed_in_parts_and_burns_no_retry() {
    let world = World::new().await;
    due(&world, 60).await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, "o-17").await;
    let worker = world.worker();
    until("cancelled", async || world.cancel_waiting().await, |cancelled| *cancelled > 0).await;
    held.rollback().await.unwrap();
    world.until_closed(60).await;
    assert_eq!(worker.stops_after(0, 0).await.closed, 60);
    world.assert_invariants().await;
}

/// The sweep's statement would take a minute.
#[apply(world_test)]
async fn a_sweep_ends_with_the_worker_in_the_middle_of_a_statement() {
    let world = World::new().await;
    let slow = "SELECT id AS order_id, due_at FROM orders, pg_sleep(60)
                WHERE due_at <= now() - $2::bigint * interval '1 ms' AND (due_at, id) > ($3, $4) LIMIT $1";
    let effect = Effect::written("close", WRITTEN, Some(slow));
    world.orders("o", 1, -10_000).await;
    let worker = world.worker_of(effect, sweeping());
    let running = format!(
        "SELECT count(*) FROM pg_stat_activity
         WHERE wait_event = 'PgSleep' AND query LIKE '%pg_sleep(60)%' AND pid <> pg_backend_pid()
         AND pid IN (SELECT pid FROM pg_locks l JOIN pg_class c ON c.oid = l.relation WHERE relnamespace = '{}'::regnamespace)",
        world.schema
    );
    let running = async || world.number(&running).await;
    until("the statement runs", running, |count| *count == 1).await;
    worker.stop().await;
    until("the statement is cancelled", running, |count| *count == 0).await;
}
