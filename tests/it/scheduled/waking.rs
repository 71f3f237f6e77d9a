//! A worker is woken at once, commits do not wait for one another, and no row is missed between the two.

use std::time::Duration;

use overdue::internals::{store::Connection, timing::Timing};

use crate::support::{World, until, worker::settings};

/// Whether a worker waits for a notification: it holds the lock alone.
async fn is_idle(world: &World) -> bool {
    world
        .number(
            "SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND classid = 1870100848
                 AND objid = 'scheduled_notices'::regclass AND mode = 'ExclusiveLock' AND granted",
        )
        .await
        > 0
}

async fn until_idle(world: &World) {
    until("the worker waits", async || is_idle(world).await, |idle| *idle).await;
}

async fn schedule_in(client: &Connection, order: &str) {
    let sql = format!("SELECT schedule('{order}', 'unpaid', '40 minutes')");
    client.batch_execute(&sql).await.unwrap();
}

/// Nobody looks for an hour: the one that stops notifies the one that waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_next_one_publishes_as_soon_as_the_one_before_it_stops() {
    let mut world = World::new().await;
    let backoff_longest = Duration::from_hours(1); // data: an interval in which no test ends
    world.services.timing = Timing { backoff_longest, ..Timing::often() }.into();
    world.knows_timeouts().await;
    let first = world.worker();
    world.sql("SELECT schedule('first', 'unpaid', '40 minutes')").await;
    world.until_published().await;

    let (url, schema) = (world.database_user().await, &world.schema);
    world.sql(&format!("GRANT ALL ON ALL TABLES IN SCHEMA {schema} TO {schema}")).await;
    let next = world.worker_at(world.address(), &url, settings());
    let waits = format!(
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{schema}' AND state = 'idle' AND query LIKE '-- schedule_want:%'"
    );
    until("the next one waits", async || world.number(&waits).await, |waiting| *waiting == 1).await;
    first.stop().await;
    world.sql("SELECT schedule('next', 'unpaid', '40 minutes')").await;
    world.until_published().await;
    next.stop().await;
}

/// The row of a transaction that began before the worker waited, and did not notify.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_does_not_wait_while_a_transaction_is_open_that_did_not_notify() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let client = world.store.client().await.unwrap();
    client.batch_execute("BEGIN").await.unwrap();
    // No worker waits: nothing is notified.
    schedule_in(&client, "open").await;
    let _worker = world.worker();
    world.sql("SELECT schedule('o', 'unpaid', '40 minutes')").await;
    world.until_published().await;
    // It has published, and looks again and again; it cannot wait.
    for n in 0..5 {
        world.sql(&format!("SELECT schedule('o-{n}', 'unpaid', '40 minutes')")).await;
        world.until_published().await;
        assert!(!is_idle(&world).await);
    }
    client.batch_execute("COMMIT").await.unwrap();
    // It looks once more when it can be sure of being notified, and finds the row.
    until_idle(&world).await;
    world.until_published().await;
    let wire = world.wire().await;
    let level = async || wire.ready("orders.delay.30m").await;
    until("all published", level, |ready| *ready == 7).await;
}

/// 50 times: it waits, somebody schedules. One that were found by looking only would take seconds each time, and the
/// test longer than any is waited for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_worker_that_waits_is_notified_by_the_next_transaction() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let _worker = world.worker();
    for n in 0..50 {
        until_idle(&world).await;
        world.sql(&format!("SELECT schedule('o-{n}', 'unpaid', '40 minutes')")).await;
        world.until_published().await;
    }
}

/// For two-phase commit; the row is found by looking.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_notifications_rows_are_found_by_looking() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let _worker = world.worker();
    until_idle(&world).await;
    world.sql("SET overdue.notify = off; SELECT schedule('o', 'unpaid', '40 minutes'); RESET overdue.notify").await;
    world.until_published().await;
    until_idle(&world).await;
    world.sql("INSERT INTO scheduled_notices (order_id, timeout, due_at) VALUES ('past the function', 'unpaid', now())").await;
    let aside = async || world.number("SELECT count(*) FROM scheduled_notices_refused").await;
    until("found", aside, |rows| *rows == 1).await;
}

/// Commits of many clients at once, again and again: each row is published, whether its transaction notified or not.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_row_is_missed_while_clients_come_and_go() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let _worker = world.worker();
    for round in 0..10 {
        until_idle(&world).await;
        let clients = (0..4).map(async |n| {
            let client = world.store.client().await.unwrap();
            for m in 0..25 {
                schedule_in(&client, &format!("o-{round}-{n}-{m}")).await;
            }
        });
        futures_util::future::join_all(clients).await;
    }
    world.until_published().await;
    let wire = world.wire().await;
    let level = async || wire.ready("orders.delay.30m").await;
    until("each row is a message", level, |ready| *ready == 1_000).await;
}
