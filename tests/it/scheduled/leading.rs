//! Who publishes, and that no row is missed.

use std::time::Duration;

use overdue::internals::timing::Timing;

use crate::support::{World, until, worker::settings};

/// Nobody waits for an hour, which is what comes after a failure: a worker tries to lead several times a second.
#[apply(world_test)]
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
        "SELECT count(*) FROM pg_stat_activity WHERE usename = '{schema}' AND state = 'idle' AND query LIKE '-- outgoing_lead:%'"
    );
    // For the outbox as well.
    until("the next one waits", async || world.number(&waits).await, |waiting| *waiting == 2).await;
    first.stop().await;
    world.sql("SELECT schedule('next', 'unpaid', '40 minutes')").await;
    world.until_published().await;
    next.stop().await;
}

/// The old one keeps what it has, and does not look at what it does not know.
#[apply(world_test)]
async fn a_notice_for_a_timeout_that_only_a_newer_worker_knows_is_published_beside_the_old_one() {
    let world = World::new().await;
    world.sql("INSERT INTO schedule_timeouts (name, after) VALUES ('unpaid', '30 min'), ('unclaimed', '30 min')").await;
    world
        .sql("SELECT schedule('o', 'unclaimed', '40 minutes'), schedule('o', 'unpaid', '40 minutes')")
        .await;
    let old = world.worker();
    let wire = world.wire().await;
    let level = async || wire.ready("orders.delay.30m").await;
    until("what it knows is published", level, |ready| *ready == 1).await;
    let newer = std::fs::read_to_string(world.topology_file()).unwrap();
    let newer = format!("{newer}\n[[timeout]]\nname = \"unclaimed\"\nafter = \"30m\"\n");
    std::fs::write(world.topology_file(), newer).unwrap();
    let newer = world.started(|_| {}).await;
    until("published", level, |ready| *ready == 2).await;
    world.until_published().await;
    for n in 0..5 {
        world.sql(&format!("SELECT schedule('p-{n}', 'unclaimed', '40 minutes'), schedule('q-{n}', 'unpaid', '40 minutes')")).await;
        world.until_published().await;
    }
    until("each once", level, |ready| *ready == 12).await;
    // When it is gone the newer one publishes both.
    old.stop().await;
    world
        .sql("SELECT schedule('r', 'unclaimed', '40 minutes'), schedule('s', 'unpaid', '40 minutes')")
        .await;
    world.until_published().await;
    assert_eq!(world.number("SELECT count(*) FROM scheduled_notices_refused").await, 0);
    assert_eq!(newer.logged("ERROR"), 0, "{}", newer.log());
}

/// Its number is smaller than that of rows that are published.
#[apply(world_test)]
async fn the_row_of_a_transaction_that_was_open_for_a_while_is_published() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let client = world.store.client().await.unwrap();
    client.batch_execute("BEGIN; SELECT schedule('open', 'unpaid', '40 minutes')").await.unwrap();
    let _worker = world.worker();
    for n in 0..5 {
        world.sql(&format!("SELECT schedule('o-{n}', 'unpaid', '40 minutes')")).await;
        world.until_published().await;
    }
    client.batch_execute("COMMIT").await.unwrap();
    world.until_published().await;
    let wire = world.wire().await;
    let level = async || wire.ready("orders.delay.30m").await;
    until("all published", level, |ready| *ready == 6).await;
}

/// Commits of many clients at once, again and again.
#[apply(world_test)]
async fn no_row_is_missed_while_clients_come_and_go() {
    let world = World::new().await;
    world.knows_timeouts().await;
    let _worker = world.worker();
    for round in 0..10 {
        world.until_published().await;
        let clients = (0..4).map(async |n| {
            let client = world.store.client().await.unwrap();
            for m in 0..25 {
                let order = format!("o-{round}-{n}-{m}");
                let sql = format!("SELECT schedule('{order}', 'unpaid', '40 minutes')");
                client.batch_execute(&sql).await.unwrap();
            }
        });
        futures_util::future::join_all(clients).await;
    }
    world.until_published().await;
    let wire = world.wire().await;
    let level = async || wire.ready("orders.delay.30m").await;
    until("each row is a message", level, |ready| *ready == 1_000).await;
}
