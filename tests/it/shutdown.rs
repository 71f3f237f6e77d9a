//! Signals to the real worker process: it finishes open batches, and requeues the other messages.

use futures_util::future::join_all;

use crate::support::{Proxy, WorkerProcess, World, ids, until};

/// Starts a worker with small batches on 100 due orders; the test stalls the batch of the first order.
async fn busy_worker(world: &World, drain: &str) -> WorkerProcess {
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &ids("o", 100)).await;
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

/// Each signal, in a world of its own.
#[apply(world_test)]
async fn a_signal_finishes_the_batch_in_hand_gives_the_rest_back_and_exits_0() {
    join_all(["TERM", "INT", "HUP"].map(async |signal| {
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
        // No acked message and no closed order was delivered again.
        assert_eq!((counts.already_final, counts.parked), (0, 0));
        world.assert_invariants().await;
    }))
    .await;
}

/// A drain that exceeds its deadline, and a second signal a long time before it.
#[apply(world_test)]
async fn a_stop_that_does_not_finish_ends_with_its_code_and_loses_nothing() {
    for (drain, again, code) in [("500ms", false, 1), ("5m", true, 130)] {
        let world = World::new().await;
        world.orders("o", 100, 0).await;
        let mut client = world.store.client().await.unwrap();
        let held = world.stall(&mut client, "o-0").await;
        let mut process = busy_worker(&world, drain).await;
        process.signal("TERM");
        process.until_logged("stopping").await;
        if again {
            assert!(process.is_running());
            process.signal("TERM");
        }
        let status = process.ended().await;
        let log = process.log();
        assert_eq!(status.code(), Some(code), "{log}");
        assert!(again || log.contains("did not finish within 500ms (worker.drain)"), "{log}");
        held.rollback().await.unwrap();
        let _next = world.worker();
        world.until_closed(100).await;
        world.until_empty("orders.unpaid").await;
        world.assert_invariants().await;
    }
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
        process.stops().await;
        away.pass();
    }
    let _next = world.worker();
    world.until_closed(10).await;
    world.assert_invariants().await;
}
