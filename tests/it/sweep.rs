//! The sweep closes overdue orders without a message.

use overdue::internals::config::WorkerSettings;

use crate::support::{
    RunningWorker, World, until,
    worker::{millis, settings},
};

/// Waits for the count: a page is counted when it has ended.
async fn until_swept(worker: &RunningWorker, orders: u64) {
    until("swept", async || worker.counts().swept, |swept| *swept == orders).await;
}

fn sweeping(grace: &str) -> WorkerSettings {
    WorkerSettings { sweep_every: millis("100ms"), sweep_grace: millis(grace), ..settings() }
}

#[apply(world_test)]
async fn an_order_without_a_message_is_closed_after_the_grace_and_not_before() {
    let (world, wire) = World::new().await.wired().await;
    let subscriber = wire.listen("orders.events", "order.closed").await;
    world.orders("lost", 5, 200).await;
    world.orders("later", 5, 3_600_000).await;
    let worker = world.worker_with(sweeping("700ms"));
    world.until_closed(5).await;
    let swept = "SELECT count(*) FROM closures WHERE path = 'sweep' AND order_id LIKE 'lost-%'";
    assert_eq!(world.number(swept).await, 5);
    let early =
        "SELECT count(*) FROM closures WHERE closed_at < due_at + interval '700 milliseconds'";
    assert_eq!(world.number(early).await, 0);
    wire.take_many(&subscriber, 5).await;
    assert_eq!(world.closed().await, 5);
    world.assert_invariants().await;
    until_swept(&worker, 5).await;
    let counts = worker.stop().await;
    assert_eq!((counts.swept, counts.closed), (5, 0));
}

/// The failing orders fill more than a page, and are older than the others.
#[apply(world_test)]
async fn many_orders_that_fail_do_not_hide_the_others_from_the_sweep() {
    let world = World::new().await;
    world.orders("bad", 520, -20_000).await;
    world
        .sql(
            "INSERT INTO stock (sku, available, reserved) VALUES ('broken', 0, 0);
             UPDATE order_items SET sku = 'broken' WHERE order_id LIKE 'bad-%' AND qty = 2",
        )
        .await;
    world.orders("o", 20, -10_000).await;
    let worker = world.worker_with(WorkerSettings { sweep_every: millis("1h"), ..sweeping("1s") });
    world.until_closed(20).await;
    until_swept(&worker, 20).await;
    assert_eq!(worker.stop().await.swept, 20);
}

/// A commit after the stop request is counted as well.
#[apply(world_test)]
async fn a_page_that_is_closed_while_the_worker_stops_is_counted() {
    let world = World::new().await;
    world.orders("o", 20, -10_000).await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, "o-0").await;
    let worker = world.worker_with(WorkerSettings { sweep_every: millis("1h"), ..sweeping("1s") });
    world.until_stalled().await;
    let (counts, released) = tokio::join!(biased; worker.stop(), held.rollback());
    released.unwrap();
    assert_eq!((counts.swept, world.closed().await), (20, 20));
}
