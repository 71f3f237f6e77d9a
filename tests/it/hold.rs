//! Waiting messages limit no due ones, and guarded orders back off.

use overdue::internals::{config::WorkerSettings, store::orders::Effect};

use crate::support::{
    World,
    orders::WRITTEN,
    samples, until,
    worker::{millis, settings},
};

/// The messages far exceed the prefetch of one channel: they wait, and due orders behind them are closed at once.
#[apply(world_test)]
async fn what_is_held_limits_nothing_that_is_due() {
    let (world, wire) = World::new().await.wired().await;
    let early = world.orders("early", 3_000, 3_600_000).await;
    let due = world.orders("due", 500, 0).await;
    wire.publish_all("orders.dlx", "1s.unpaid", &early).await;
    wire.publish_all("orders.dlx", "1s.unpaid", &due).await;
    let few = WorkerSettings { batch_size: 100, in_flight: 2, hold: millis("2h"), ..settings() };
    let worker = world.worker_with(few);
    world.until_closed(500).await;
    // The answers about the last early orders may come after the due ones. A message that is queried twice, because its batch was
    // repeated, waits twice.
    let counts = worker.until("all held", |counts| counts.held >= 3_000).await;
    assert_eq!((counts.put_back, counts.parked), (0, 0));
    // An order can be closed ahead of its message, which is received and acked a moment later.
    let ready = async || wire.ready("orders.unpaid").await;
    until("nothing ready", ready, |ready| *ready == 0).await;
    let unacked = async || world.unacked("orders.unpaid").await;
    until("only those unacked", unacked, |unacked| *unacked == Some(3_000)).await;
    worker.stop().await;
    until("all given back", ready, |ready| *ready == 3_000).await;
}

fn guarded_topology() -> String {
    let timeouts = [("unpaid", "100ms", "guarded")];
    samples::orders("levels = ['100ms', '500ms', '2s']", &timeouts, "['500ms', '2s']")
}

/// Answers `not_due` for an overdue order while the table `guards` has it.
fn guarded() -> Effect {
    let sql = WRITTEN.replace(
        "asked.due_at <= now()",
        "asked.due_at <= now() AND asked.id NOT IN (SELECT id FROM guards)",
    );
    assert_ne!(sql, WRITTEN, "the guard is in the statement");
    Effect::written("guarded", &sql, None)
}

/// A guarded order backs off, is not parked, and delays no other order.
#[apply(world_test)]
async fn overdue_orders_that_the_effect_guards_circle_at_most_once_per_retry_level() {
    let (world, wire) = World::of(&guarded_topology()).await.wired().await;
    let orders = world.orders("o", 1_000, 0).await;
    world.sql("CREATE TABLE guards AS SELECT id FROM orders").await;
    let worker = world.worker_of(guarded(), settings());
    let began = std::time::Instant::now();
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    let seen = async || worker.counts().guarded;
    until("guarded three times each", seen, |seen| *seen >= 3_000).await;
    let due = world.orders("due", 100, 0).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &due).await;
    world.until_closed(100).await;

    let (seen, elapsed) = (worker.counts().guarded, began.elapsed().as_secs());
    // At once, after 500 ms, and then every 2 s.
    let most = 1_000 * (3 + elapsed / 2);
    assert!(seen <= most, "{seen} circles in {elapsed} s are more than {most}");
    assert_eq!((worker.counts().retried, worker.counts().parked), (0, 0));
    world.sql("DELETE FROM guards").await;
    world.until_closed(1_100).await;
    worker.stops_after(0, 0).await;
    world.assert_invariants().await;
}
