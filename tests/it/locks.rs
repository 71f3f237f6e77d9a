//! Rows that somebody keeps locked: the others go on, and the locked ones are tried again until they are free.

use deadpool_postgres::Transaction;
use overdue::internals::{
    config::WorkerSettings,
    store::{Connection, orders::Effect},
};
use tokio_util::sync::CancellationToken;

use crate::support::{
    RunningWorker, World, hold, ids,
    orders::{WRITTEN, written},
    until,
    worker::{millis, settings},
};

/// Locks one SKU until the transaction ends.
async fn hold_stock<'a>(client: &'a mut Connection, sku: &str) -> Transaction<'a> {
    let transaction = client.transaction().await.unwrap();
    let sql = "SELECT sku FROM stock WHERE sku = $1 FOR UPDATE";
    assert!(transaction.query_opt(sql, &[&sku]).await.unwrap().is_some());
    transaction
}

/// All are due, and their messages are there.
async fn due(world: &World, count: usize) {
    let orders = world.orders("o", count, 0).await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
}

/// Each was closed once. It is counted a moment after it was committed, and not where the worker is stopped meanwhile.
async fn all_closed_without_a_retry(world: &World, worker: RunningWorker, orders: usize) {
    world.until_closed(orders).await;
    let counted = async || worker.counts().closed + worker.counts().burst;
    let all = u64::try_from(orders).unwrap();
    until("all counted", counted, |closed| *closed >= all).await;
    let counts = worker.stop().await;
    assert_eq!((counts.closed + counts.burst, counts.retried, counts.parked), (all, 0, 0));
    world.assert_invariants().await;
}

#[apply(world_test)]
async fn locked_orders_hold_up_nobody_and_burn_no_retry() {
    let world = World::new().await;
    due(&world, 1_000).await;
    let mut client = world.store.client().await.unwrap();
    let held = client.transaction().await.unwrap();
    let few = "SELECT FROM orders WHERE id = ANY ($1) FOR UPDATE";
    assert_eq!(held.execute(few, &[&ids("o", 20)]).await.unwrap(), 20);
    let worker = world.worker();
    world.until_closed(980).await;
    held.rollback().await.unwrap();
    all_closed_without_a_retry(&world, worker, 1_000).await;
}

/// Two of five orders need the SKU.
#[apply(world_test)]
async fn locked_stock_holds_up_only_the_orders_that_need_it_and_no_payment_of_others() {
    let world = World::new().await;
    due(&world, 500).await;
    world.orders("paying", 5, 3_600_000).await;
    let mut client = world.store.client().await.unwrap();
    let held = hold_stock(&mut client, "sku-0").await;
    let worker = world.worker();
    world.until_closed(300).await;
    // `paying-0` to `paying-2` need other stock.
    for n in 0..=2 {
        assert!(world.pay(&format!("paying-{n}")).await);
    }
    assert_eq!(world.closed().await, 300);
    held.rollback().await.unwrap();
    all_closed_without_a_retry(&world, worker, 500).await;
}

/// Batches that pass over what is locked would pass over each other's stock as well, so they take turns. Without `overdue_sql`
/// nothing is closed ahead of the messages: how often each is tried depends on the machine.
#[apply(world_test)]
async fn orders_that_need_no_locked_stock_are_closed_by_their_messages_alone() {
    let world = World::new().await;
    due(&world, 500).await;
    let mut client = world.store.client().await.unwrap();
    let held = hold_stock(&mut client, "sku-0").await;
    let worker = world.worker_of(Effect::written("close", WRITTEN, None), settings());
    world.until_closed(300).await;
    worker.until("the others wait", |counts| counts.held >= 200).await;
    assert_eq!(world.closed().await, 300);
    held.rollback().await.unwrap();
    all_closed_without_a_retry(&world, worker, 500).await;
}

/// Another effect knows nothing of `busy`: its statement waits for a short while, and is split.
#[apply(world_test)]
async fn an_effect_that_waits_for_locks_is_split_around_them() {
    let world = World::new().await;
    due(&world, 200).await;
    let mut client = world.store.client().await.unwrap();
    let held = hold(&mut client, "o-17").await;
    let sql = WRITTEN.replacen(" SKIP LOCKED", "", 1);
    assert_ne!(sql, WRITTEN);
    let worker = world.worker_of(written(&sql), settings());
    world.until_closed(199).await;
    held.rollback().await.unwrap();
    world.until_closed(200).await;
    assert_eq!(worker.stops_after(0, 0).await.closed, 200);
    world.assert_invariants().await;
}

/// Somebody alters the table: nothing can be closed meanwhile, and nothing is anybody's fault.
#[apply(world_test)]
async fn a_locked_table_burns_no_retry() {
    let world = World::new().await;
    let orders = world.orders("o", 300, 0).await;
    let worker = world.worker();
    let wire = world.wire().await;
    wire.publish_all("orders.dlx", "1s.unpaid", &orders[..100]).await;
    world.until_closed(100).await;
    let mut client = world.store.client().await.unwrap();
    let held = client.transaction().await.unwrap();
    held.batch_execute("LOCK TABLE orders IN ACCESS EXCLUSIVE MODE").await.unwrap();
    wire.publish_all("orders.dlx", "1s.unpaid", &orders[100..]).await;
    world.until_somebody_waits().await;
    let counts = async || worker.counts();
    until("given up for now", counts, |counts| counts.held + counts.put_back >= 200).await;
    held.rollback().await.unwrap();
    world.until_closed(300).await;
    let counts = worker.stop().await;
    assert_eq!((counts.closed, counts.retried, counts.parked), (300, 0, 0));
}

/// Neither do the sweeps of two workers wait for what somebody holds.
#[apply(world_test)]
async fn the_sweep_passes_over_what_is_locked() {
    let world = World::new().await;
    world.orders("o", 1_200, -10_000).await;
    let mut client = world.store.client().await.unwrap();
    let held = hold(&mut client, "o-17").await;
    let sweeping =
        || WorkerSettings { sweep_every: millis("200ms"), sweep_grace: millis("1s"), ..settings() };
    let workers = [world.worker_with(sweeping()), world.worker_with(sweeping())];
    world.until_closed(1_199).await;
    held.rollback().await.unwrap();
    world.until_closed(1_200).await;
    world.assert_invariants().await;
    let [a, b] = workers;
    // What was committed is counted a moment later, and not where the worker is stopped meanwhile.
    let swept = async || a.counts().swept + b.counts().swept;
    until("all counted", swept, |swept| *swept >= 1_200).await;
    assert_eq!(a.stop().await.swept + b.stop().await.swept, 1_200);
}

/// What is held for so long is named where somebody looks: in the log of the program. Its threshold is ten seconds.
#[apply(world_test)]
async fn orders_that_stay_locked_are_named_in_a_warning_and_no_others() {
    let world = World::new().await;
    due(&world, 100).await;
    let mut client = world.store.client().await.unwrap();
    let held = client.transaction().await.unwrap();
    let few = "SELECT FROM orders WHERE id = ANY ($1) FOR UPDATE";
    assert_eq!(held.execute(few, &[&ids("o", 3)]).await.unwrap(), 3);
    let mut process = world.started(|_| {}).await;
    world.until_closed(97).await;
    process.until_logged("orders wait for a lock of another session").await;
    // The first order can have come alone, a moment before the others: then they are in the next line.
    let is_of_all =
        |line: &&str| line.contains("a lock of another session") && line.contains("orders=3");
    let look = async || process.log();
    let log = until("all three in a line", look, |log| log.lines().any(|it| is_of_all(&it))).await;
    let line = log.lines().find(is_of_all).unwrap();
    assert!(line.contains("WARN"), "{line}");
    let (_, named) = line.split_once("locked=\"").unwrap();
    let mut named: Vec<&str> = named.split('"').next().unwrap().split(',').collect();
    named.sort_unstable();
    assert_eq!(named, ids("o", 3), "{line}");
    assert!(line.contains("a row of orders is locked by pid "), "{line}");
    held.rollback().await.unwrap();
    world.until_closed(100).await;
    process.signal("TERM");
    process.until_logged("retried=0 parked=0").await;
    world.assert_invariants().await;
}

#[apply(world_test)]
async fn a_stop_does_not_wait_for_a_lock() {
    let world = World::new().await;
    due(&world, 100).await;
    let mut client = world.store.client().await.unwrap();
    let held = hold_stock(&mut client, "sku-0").await;
    let worker = world.worker();
    world.until_closed(60).await;
    // Fails after the drain deadline.
    worker.stop().await;
    held.rollback().await.unwrap();
    let _next = world.worker();
    world.until_closed(100).await;
    world.assert_invariants().await;
}

/// Of five, four wait while one has it: whoever waits in their queue waits for longer than a batch does, and whoever passes over what
/// is locked never finds it free. Before, an order that needs it was late for as long as they went on. One whose stock somebody keeps
/// does not take its turns.
#[apply(world_test)]
async fn an_order_whose_stock_is_always_locked_waits_for_its_turn() {
    let world = World::new().await;
    let worker = world.worker();
    // They need `sku-1` and the next one; `sku-2` and the next one; `sku-3` and `sku-4`.
    let orders = world.orders("o", 3, 0).await;
    let [contended, _, kept] = &orders[..] else { unreachable!() };
    let mut client = world.store.client().await.unwrap();
    let held = hold_stock(&mut client, "sku-4").await;
    let is_over = CancellationToken::new();
    let turn =
        "SELECT pg_sleep(0.025) FROM (SELECT FROM stock WHERE sku = 'sku-1' FOR UPDATE) AS held";
    let store = world.patient_store();
    let others = [(); 5].map(|()| {
        let (store, is_over) = (store.clone(), is_over.clone());
        tokio::spawn(async move {
            let client = store.client().await.unwrap();
            client.batch_execute("SET synchronous_commit = off").await.unwrap();
            while !is_over.is_cancelled() {
                client.batch_execute(turn).await.unwrap();
            }
        })
    });
    until("others wait", async || world.many_wait().await, |waiting| *waiting >= 4).await;
    world.wire().await.publish_all("orders.dlx", "1s.unpaid", &orders).await;
    until("closed", async || world.status(contended).await, |status| status == "closed").await;
    assert_eq!(world.status(kept).await, "unpaid");
    is_over.cancel();
    for other in others {
        other.await.unwrap();
    }
    held.rollback().await.unwrap();
    world.until_closed(3).await;
    worker.stops_after(0, 0).await;
    world.assert_invariants().await;
}
