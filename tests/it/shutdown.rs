//! Signals to the real worker process: what is in hand is finished, the rest is given back.

use std::{os::unix::process::ExitStatusExt, time::Duration};

use futures_util::future::join_all;
use overdue::internals::shutdown::Stop;
use tokio::time::MissedTickBehavior;

use crate::support::{Proxy, WorkerProcess, World, ids, until};

/// 100 due orders in the queue; a worker with small batches stands still in that of the first one, which a test stalls.
async fn busy_worker(world: &World, drain: &str) -> WorkerProcess {
    let wire = world.wire().await;
    wire.publish_all("orders.dlx", "1s.unpaid", &ids("o", 100)).await;
    let process = world
        .started(|command| {
            command
                .env("OVERDUE_WORKER__BATCH_SIZE", "10")
                .env("OVERDUE_WORKER__IN_FLIGHT", "2")
                .env("OVERDUE_WORKER__DRAIN", drain);
        })
        .await;
    world.until_stalled().await;
    process
}

async fn ready(world: &World) -> u32 {
    world.wire().await.ready("orders.unpaid").await
}

#[apply(world_test)]
async fn a_signal_finishes_the_batch_in_hand_gives_the_rest_back_and_exits_0() {
    for signal in ["TERM", "INT", "HUP"] {
        let world = World::new().await;
        world.orders("o", 100, 0).await;
        let mut client = world.store.client().await.unwrap();
        let held = world.stall(&mut client, "o-0").await;
        let mut process = busy_worker(&world, "5m").await;

        process.signal(signal);
        process.until_logged("stopping").await;
        assert!(process.is_running(), "it does not leave its batch alone");
        held.rollback().await.unwrap();
        let status = process.ended().await;
        assert_eq!(status.code(), Some(0), "{}", process.log());

        let closed = world.closed().await;
        assert!((1..=100).contains(&closed), "{closed} closed: at least the batch in hand");
        let left = async || i64::from(ready(&world).await);
        until("exactly the rest in the queue", left, |left| *left == 100 - closed).await;
        world.assert_invariants().await;

        let next = world.worker();
        world.until_closed(100).await;
        world.until_empty("orders.unpaid").await;
        let counts = next.stop().await;
        // Nothing that was acked, and nothing that was closed, came again.
        assert_eq!((counts.already_final, counts.parked), (0, 0));
        world.assert_invariants().await;
    }
}

#[apply(world_test)]
async fn a_drain_that_takes_longer_than_its_deadline_ends_with_1_and_loses_nothing() {
    let world = World::new().await;
    world.orders("o", 100, 0).await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, "o-0").await;
    let mut process = busy_worker(&world, "500ms").await;
    process.signal("TERM");
    let status = process.ended().await;
    assert_eq!(status.code(), Some(1), "{}", process.log());
    let log = process.log();
    assert!(log.contains("did not finish within 500ms (worker.drain)"), "{log}");
    held.rollback().await.unwrap();
    let _next = world.worker();
    world.until_closed(100).await;
    world.until_empty("orders.unpaid").await;
    world.assert_invariants().await;
}

#[apply(world_test)]
async fn a_second_signal_exits_at_once_with_130() {
    let world = World::new().await;
    world.orders("o", 100, 0).await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, "o-0").await;
    let mut process = busy_worker(&world, "5m").await;
    process.signal("TERM");
    process.until_logged("stopping").await;
    assert!(process.is_running());
    process.signal("TERM");
    // A long time before the end of its drain.
    let status = process.ended().await;
    assert_eq!(status.code(), Some(130), "{}", process.log());
    held.rollback().await.unwrap();
    let _next = world.worker();
    world.until_closed(100).await;
    world.assert_invariants().await;
}

#[apply(world_test)]
async fn an_idle_worker_stops_at_once() {
    let world = World::new().await;
    let mut process = world
        .started(|command| {
            command.env("OVERDUE_WORKER__DRAIN", "5m");
        })
        .await;
    process.signal("TERM");
    // A long time before the end of its drain.
    let status = process.ended().await;
    assert_eq!(status.code(), Some(0), "{}", process.log());
    assert!(process.log().contains("worker stopped"));
}

#[apply(world_test)]
async fn a_worker_whose_broker_or_database_is_away_stops_as_well() {
    let world = World::new().await;
    let broker = Proxy::to(&world.services.broker_socket()).await;
    let database = Proxy::to(&world.services.database_socket()).await;
    let signs = ["session ended", "orders cannot be closed"];
    for (away, sign) in [&broker, &database].into_iter().zip(signs) {
        let mut process = world
            .started(|command| {
                command
                    .env(
                        "OVERDUE_BROKER__URL",
                        world.services.broker_url(&world.vhost, Some(broker.port())),
                    )
                    .env(
                        "OVERDUE_DATABASE__URL",
                        world.services.database_url(Some(database.port())),
                    );
            })
            .await;
        let orders = world.orders(&format!("o{}", away.port()), 5, 0).await;
        away.refuse();
        world.publish("100ms", &orders).await;
        process.until_logged(sign).await;
        assert!(process.is_running());
        process.signal("TERM");
        let status = process.ended().await;
        assert_eq!(status.code(), Some(0), "{}", process.log());
        away.pass();
    }
    let _next = world.worker();
    world.until_closed(10).await;
    world.assert_invariants().await;
}

/// The roll-out of docs/operations.md: two workers, each stopped and started again in its turn while orders come all the time.
#[apply(world_test)]
async fn a_roll_out_under_load_closes_every_order_once() {
    let world = World::new().await;
    let mut workers = [world.started(|_| {}).await, world.started(|_| {}).await];
    let rolled_out = Stop::new();
    let roll_out = async {
        for worker in &mut workers {
            some_more_are_closed(&world).await;
            worker.signal("TERM");
            let status = worker.ended().await;
            assert_eq!((status.code(), status.signal()), (Some(0), None), "{}", worker.log());
            // The other one covers for it, and closes what it has given back.
            all_so_far_are_closed(&world).await;
            *worker = world.started(|_| {}).await;
        }
        some_more_are_closed(&world).await;
        rolled_out.request();
    };
    let (orders, ()) = tokio::join!(orders_come(&world, &rolled_out), roll_out);
    world.until_closed(orders).await;
    world.assert_invariants().await;
    world.parked(0).await;
}

/// 50 orders per second, until a stop is asked for; how many these were.
async fn orders_come(world: &World, stop: &Stop) -> usize {
    let publisher = world.publisher().await;
    let mut pace = tokio::time::interval(Duration::from_millis(100));
    pace.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let mut orders = 0;
    while !stop.is_requested() {
        pace.tick().await;
        // The rest after the level is waited for with the message in hand.
        let ids = world.orders(&format!("o{orders}"), 5, 700).await;
        let sent = ids.iter().map(|id| publisher.publish(world.notice("500ms", id)));
        assert!(join_all(sent).await.iter().all(Result::is_ok));
        orders += 5;
    }
    orders
}

async fn some_more_are_closed(world: &World) {
    let closed = world.closed().await;
    until("some more closed", async || world.closed().await, |now| *now > closed + 20).await;
}

async fn all_so_far_are_closed(world: &World) {
    let newest = world.rows("SELECT max(due_at)::text FROM orders").await;
    let newest: &str = newest[0].get(0);
    let left =
        format!("SELECT count(*) FROM orders WHERE status = 'unpaid' AND due_at <= '{newest}'");
    until("all so far closed", async || world.number(&left).await, |left| *left == 0).await;
}
