//! The database's clock leaps forward while a worker runs, as after a failover to a machine whose clock is wrong: what is overdue
//! by that clock alone is left to its message.

use super::{
    bad_rows::refuse,
    bursts::{begin, by_path, full_batches, until_in_burst, until_settled},
    health::{until_not_ready, until_ready},
};
use crate::support::{
    World,
    pages::{get, metrics, sum},
    until,
};

const EARLY: &str = "INSERT INTO orders (id, due_at)
                     SELECT 'early-' || n, now() - interval '5 min' FROM generate_series(1, 1000) n";
const DUE: &str = "INSERT INTO orders (id, due_at)
                   SELECT 'due-' || n, now() - interval '11 min' FROM generate_series(0, 999) n";
const EARLY_CLOSED: &str =
    "SELECT count(*) FROM orders WHERE id LIKE 'early-%' AND status <> 'unpaid'";

#[apply(world_test)]
async fn the_sweep_closes_nothing_before_its_time() {
    let world = World::clocked().await;
    let (mut process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "100ms");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "1s");
        })
        .await;
    world.orders("lost", 1, -10_000).await;
    world.until_closed(1).await;
    world.clock().advance("10 min").await;
    world.sql(EARLY).await;
    // By the clock as it was before this one is overdue, too.
    world.orders("late", 1, -11 * 60_000).await;
    world.until_closed(2).await;
    assert_eq!(world.number(EARLY_CLOSED).await, 0);
    let leap = async || metrics(address).await["overdue_database_clock_leap_seconds"];
    assert!((590.0..610.0).contains(&leap().await), "{}", leap().await);
    process.until_logged("the database's clock has leapt forward").await;
    assert_eq!(process.logged("the database's clock has leapt forward"), 1, "{}", process.log());

    world.publish("100ms", &["early-1".to_owned()]).await;
    world.until_closed(3).await;
    assert_eq!(by_path(&world, "message").await, 1);
    world.clock().advance("-10 min").await;
    until("set back", leap, |leap| *leap < 10.0).await;
}

/// Nothing was closed, and nothing is to be: what is overdue by the leap alone says nothing of the worker.
#[apply(world_test)]
async fn a_worker_is_ready() {
    let world = World::clocked().await;
    let (_process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__STUCK_AFTER", "1s");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "24h");
        })
        .await;
    // As long as it can be closed, it says that the worker is stuck; then it shows the looks.
    world
        .sql(
            "INSERT INTO orders (id, due_at)
             SELECT 'o-' || n, now() + CASE n WHEN 0 THEN -interval '1 min' ELSE interval '5 min' END
             FROM generate_series(0, 9) n",
        )
        .await;
    until_not_ready(address, "closing: ").await;
    refuse(&world, &["23514"]).await;
    until_ready(address).await;
    world.clock().advance("10 min").await;
    let seen = async || {
        let metrics = metrics(address).await;
        let overdue = sum(&metrics, "overdue_oldest_overdue_seconds", &[]);
        (metrics["overdue_database_clock_leap_seconds"], overdue)
    };
    until("the leap is seen", seen, |(leap, _)| *leap > 0.0).await;
    for _ in 0..3 {
        let (_, before) = seen().await;
        until("another look", seen, |(_, overdue)| *overdue > before).await;
        let page = get(address, "/readyz").await;
        assert_eq!(page.status, 200, "{}", page.body);
    }
    let (_, overdue) = seen().await;
    assert!((60.0..590.0).contains(&overdue), "{overdue}");
}

#[apply(world_test)]
async fn a_burst_closes_nothing_before_its_time() {
    let world = World::clocked().await;
    let mut client = world.store.client().await.unwrap();
    let (worker, held) = begin(&world, &mut client, full_batches()).await;
    world.clock().advance("10 min").await;
    world.sql(EARLY).await;
    world.sql(DUE).await;
    let due: Vec<String> = (0..700).map(|n| format!("due-{n}")).collect();
    world.publish("100ms", &due).await;
    until_in_burst(&worker, 300).await;
    held.commit().await.unwrap();
    until_settled(&world, &worker, 702).await;
    assert_eq!(world.number(EARLY_CLOSED).await, 0);
}
