//! Many orders due at once: they are closed in the order of the index, ahead of their messages.

use overdue::internals::{config::WorkerSettings, store::Connection, worker::Counts};

use crate::support::{
    Proxy, RunningWorker, World, hold,
    orders::{WRITTEN, written},
    until,
    worker::{millis, settings},
};

/// Settings whose batches are closed when full, as long as the database is busy.
pub(super) fn full_batches() -> WorkerSettings {
    WorkerSettings { batch_age: millis("1m"), ..settings() }
}

/// Keeps the database busy with an order that stalls its statement.
pub(super) async fn begin<'a>(
    world: &World,
    client: &'a mut Connection,
    settings: WorkerSettings,
) -> (RunningWorker, deadpool_postgres::Transaction<'a>) {
    let first = world.orders("first", 1, 0).await;
    let held = world.stall(client, "first-0").await;
    let worker = world.patient_worker(settings);
    // A single order first, and many later.
    world.publish("100ms", &world.orders("alone", 1, 0).await).await;
    world.until_closed(1).await;
    world.publish("100ms", &first).await;
    world.until_stalled().await;
    (worker, held)
}

/// Orders should have no stock: a statement that waits too long for a locked stock row leaves its orders to their messages,
/// and most of them have none.
pub(super) async fn until_in_burst(worker: &RunningWorker, orders: u64) {
    let counts = async || worker.counts();
    until("closed in a burst", counts, |c| c.burst >= orders).await;
}

pub(super) async fn until_settled(world: &World, worker: &RunningWorker, messages: u64) -> Counts {
    let counts = async || worker.counts();
    until("settled", counts, |c| c.closed + c.already_final >= messages).await;
    world.until_empty("orders.unpaid").await;
    worker.counts()
}

/// An order is counted after the answer of its statement; its message may be settled before.
pub(super) async fn until_counted(world: &World, worker: &RunningWorker, orders: u64) -> Counts {
    until_settled(world, worker, orders).await;
    worker.until("each order counted", |c| c.closed + c.burst >= orders).await
}

pub(super) async fn by_path(world: &World, path: &str) -> u64 {
    let sql = format!("SELECT count(*) FROM closures WHERE path = '{path}'");
    u64::try_from(world.number(&sql).await).unwrap()
}

/// Most orders have no message: they do not wait for one.
#[apply(world_test)]
async fn a_burst_is_closed_ahead_of_its_messages() {
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let (worker, held) = begin(&world, &mut client, full_batches()).await;
    let orders = world.orders_without_stock("o", 5_000).await;
    let later = world.orders("later", 5, 3_600_000).await;
    world.publish("100ms", &orders[..700]).await;
    until_in_burst(&worker, 4_300).await;
    held.commit().await.unwrap();
    world.publish("100ms", &orders[700..]).await;
    let counts = until_counted(&world, &worker, 5_002).await;
    assert_eq!(counts.closed + counts.burst, 5_002);
    assert!(counts.burst >= 4_300, "{counts:?}");
    assert_eq!((counts.retried, counts.parked, counts.swept), (0, 0, 0));
    assert_eq!(by_path(&world, "burst").await, counts.burst);
    assert_eq!(by_path(&world, "message").await, counts.closed);
    for id in later {
        assert_eq!(world.status(&id).await, "unpaid");
    }
    world.assert_invariants().await;
    let wire = world.wire().await;
    worker.stop().await;
    assert_eq!(wire.ready("orders.unpaid").await, 0);
}

/// The burst skips the row, and the row's message settles it.
#[apply(world_test)]
async fn a_bad_row_and_a_locked_row_in_a_burst_hold_up_nobody() {
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let (worker, stalled) = begin(&world, &mut client, full_batches()).await;
    let orders = world.orders("o", 3_000, 0).await;
    world
        .sql(
            "INSERT INTO stock (sku, available, reserved) VALUES ('broken', 0, 0);
             UPDATE order_items SET sku = 'broken' WHERE order_id = 'o-17' AND qty = 2;",
        )
        .await;
    let mut other = world.store.client().await.unwrap();
    let locked = hold(&mut other, "o-2018").await;
    world.publish("100ms", &orders).await;
    world.until_closed(2_999).await;
    stalled.commit().await.unwrap();
    let parked = world.parked(1).await.remove(0);
    assert_eq!(parked.text(), r#"{"order_id":"o-17"}"#);
    assert!(parked.reason().contains("stock_reserved_check"), "{}", parked.reason());
    locked.rollback().await.unwrap();
    world.until_closed(3_001).await;
    until_settled(&world, &worker, 3_001).await;
    let counts = worker.until("parked", |c| c.retried >= 3 && c.parked >= 1).await;
    assert!(counts.burst > 0, "{counts:?}");
    worker.stops_after(3, 1).await;
}

/// Guarded orders are the oldest in the index meanwhile, and more than a pass reads.
#[apply(world_test)]
async fn old_orders_that_cannot_be_closed_hide_nothing() {
    let world = World::new().await;
    let guarded = "INSERT INTO orders (id, due_at)
                   SELECT 'guarded-' || n, now() - interval '1 min' FROM generate_series(1, 60000) n";
    world.sql(guarded).await;
    let sql = WRITTEN.replace(
        "asked.due_at <= now()",
        "asked.due_at <= now() AND asked.id NOT LIKE 'guarded-%'",
    );
    assert_ne!(sql, WRITTEN);
    let mut client = world.store.client().await.unwrap();
    let first = world.orders("first", 1, 0).await;
    let held = world.stall(&mut client, "first-0").await;
    let worker = world.worker_of(written(&sql), full_batches());
    world.publish("100ms", &world.orders("alone", 1, 0).await).await;
    world.until_closed(1).await;
    world.publish("100ms", &first).await;
    world.until_stalled().await;
    let orders = world.orders_without_stock("o", 3_000).await;
    world.publish("100ms", &orders[..700]).await;
    until_in_burst(&worker, 2_000).await;
    held.commit().await.unwrap();
    world.publish("100ms", &orders[700..]).await;
    let counts = until_counted(&world, &worker, 3_002).await;
    assert_eq!(counts.closed + counts.burst, 3_002);
    assert_eq!(counts.parked, 0);
}

#[apply(world_test)]
async fn three_workers_share_a_burst() {
    let world = World::new().await;
    let orders = world.orders("o", 6_000, 0).await;
    let wire = world.wire().await;
    wire.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    let workers = [(); 3]
        .map(|()| world.worker_with(WorkerSettings { batch_age: millis("1s"), ..settings() }));
    world.until_closed(6_000).await;
    let settled = async || {
        workers.iter().map(RunningWorker::counts).map(|c| c.closed + c.already_final).sum::<u64>()
    };
    until("every message settled", settled, |settled| *settled >= 6_000).await;
    let counted =
        async || workers.iter().map(RunningWorker::counts).map(|c| c.closed + c.burst).sum::<u64>();
    until("every order counted", counted, |counted| *counted >= 6_000).await;
    world.assert_invariants().await;
    let (mut closed, mut wrong) = (0, 0);
    for worker in workers {
        let counts = worker.stop().await;
        closed += counts.closed + counts.burst;
        wrong += counts.retried + counts.parked + counts.swept;
    }
    assert_eq!((closed, wrong), (6_000, 0));
    assert_eq!(wire.ready("orders.unpaid").await, 0);
}

#[apply(world_test)]
async fn killed_in_the_middle_of_a_burst() {
    let world = World::new().await;
    let orders = world.orders("o", 12_000, 3_600_000).await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    let mut client = world.store.client().await.unwrap();
    // An order stalls its statement until the worker is killed: the burst cannot end before.
    let held = world.stall(&mut client, "o-11999").await;
    world.due_now().await;
    let change = |command: &mut std::process::Command| {
        command.env("OVERDUE_WORKER__BATCH_AGE", "1s");
    };
    let mut process = world.started(change).await;
    until("burst", async || by_path(&world, "burst").await, |closed| *closed > 0).await;
    process.kill();
    assert!(world.closed().await < 12_000, "killed too late");
    held.commit().await.unwrap();
    let _next = world.started(change).await;
    world.until_closed(12_000).await;
    world.until_empty("orders.unpaid").await;
    world.assert_invariants().await;
    world.parked(0).await;
}

#[apply(world_test)]
async fn the_database_is_gone_in_the_middle_of_a_burst() {
    let world = World::new().await;
    let database = Proxy::to(&world.services.database_socket()).await;
    let url = world.services.database_url(Some(database.port()));
    let orders = world.orders("o", 12_000, 0).await;
    let wire = world.wire().await;
    wire.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    let mut client = world.store.client().await.unwrap();
    // An order stalls its statement until the database is gone: the burst cannot end before.
    let held = world.stall(&mut client, "o-11999").await;
    let settings = WorkerSettings { batch_age: millis("1s"), ..settings() };
    let worker = world.worker_at(world.address(), &url, settings);
    until("burst", async || by_path(&world, "burst").await, |closed| *closed > 0).await;
    database.cut();
    database.refuse();
    let attempts = database.attempts();
    until("tried again", async || database.attempts(), |now| *now > attempts).await;
    assert!(world.closed().await < 12_000, "gone too late");
    held.commit().await.unwrap();
    database.pass();
    world.until_closed(12_000).await;
    until_settled(&world, &worker, 12_000).await;
    world.assert_invariants().await;
    worker.stops_after(0, 0).await;
    assert_eq!(wire.ready("orders.unpaid").await, 0);
}
