//! The database's clock leaps forward while a worker runs, as after a failover to a machine with a wrong clock: orders that are
//! overdue by that clock are left to their messages.

use super::bursts::by_path;
use crate::support::{
    World,
    pages::{get, metrics, sum},
    until,
};

const EARLY: &str = "INSERT INTO orders (id, due_at)
                     SELECT 'early-' || n, now() - interval '5 min' FROM generate_series(1, 1000) n";

#[apply(world_test)]
async fn sweep_and_bursts_wait_after_a_leap_and_not_after_one_back() {
    let world = World::clocked().await;
    let (process, address) = world
        .listening(|command| {
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "100ms");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "1s");
            command.env("OVERDUE_WORKER__STUCK_AFTER", "1s");
        })
        .await;
    world.orders("lost", 1, -10_000).await;
    world.until_closed(1).await;
    world.clock().advance("10 min").await;
    world.sql(EARLY).await;
    let leap = async || metrics(address).await["overdue_database_clock_leap_seconds"];
    until("the leap is seen", leap, |leap| (590.0..610.0).contains(leap)).await;
    assert_eq!(process.logged("the database's clock has leapt forward"), 1, "{}", process.log());
    // The orders are enough to begin a burst.
    let early: Vec<String> = (1..=700).map(|n| format!("early-{n}")).collect();
    world.publish("100ms", &early).await;
    world.until_closed(701).await;
    assert_eq!(by_path(&world, "message").await, 700);
    let overdue = async || sum(&metrics(address).await, "overdue_oldest_overdue_seconds", &[]);
    let before = overdue().await;
    until("another look", overdue, |overdue| *overdue > before).await;
    let page = get(address, "/readyz").await;
    assert_eq!(page.status, 200, "{}", page.body);
    assert_eq!((world.closed().await, by_path(&world, "sweep").await), (701, 1));

    world.clock().advance("-10 min").await;
    world.orders("lost-later", 1, -10_000).await;
    world.until_closed(702).await;
    assert_eq!(by_path(&world, "sweep").await, 2);
    until("set back", leap, |leap| *leap == 0.0).await;
}
