//! Payment against closing: whoever commits first wins, stock is conserved, nothing deadlocks.

use std::sync::Arc;

use rand::seq::SliceRandom;

use crate::support::{World, until, wait::awaited};

const PAY: &str = include_str!("../../sql/pay.sql");
const CLOSE: &str = include_str!("../../sql/close.sql");
const NO_TRACES: Option<serde_json::Value> = None;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_commits_while_the_order_is_being_tried_wins() {
    let world = World::new().await;
    let orders = world.orders("o", 3, 0).await;
    let mut client = world.store.client().await.unwrap();
    let payment = client.transaction().await.unwrap();
    assert!(payment.query_opt(PAY, &[&orders[0]]).await.unwrap().is_some());
    let worker = world.worker();
    // The last one shares no stock with the first: it is closed with the same batch, or after it.
    world.publish("100ms", &[orders[0].clone(), orders[2].clone()]).await;
    world.until_closed(1).await;
    assert_eq!(world.status("o-0").await, "unpaid");
    payment.commit().await.unwrap();
    let counts = async || worker.counts();
    until("already final", counts, |counts| counts.already_final == 1).await;
    assert_eq!(world.status("o-0").await, "paid");
    world.assert_invariants().await;
    assert_eq!(worker.stop().await.closed, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_rolls_back_while_the_order_is_being_tried_loses() {
    let world = World::new().await;
    let orders = world.orders("o", 3, 0).await;
    let mut client = world.store.client().await.unwrap();
    let payment = client.transaction().await.unwrap();
    assert!(payment.query_opt(PAY, &[&orders[0]]).await.unwrap().is_some());
    let worker = world.worker();
    // The last one shares no stock with the first: it is closed with the same batch, or after it.
    world.publish("100ms", &[orders[0].clone(), orders[2].clone()]).await;
    world.until_closed(1).await;
    assert_eq!(world.status("o-0").await, "unpaid");
    payment.rollback().await.unwrap();
    world.until_closed(2).await;
    world.assert_invariants().await;
    assert_eq!(worker.stop().await.closed, 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_that_comes_while_the_order_is_being_closed_is_refused() {
    let world = Arc::new(World::new().await);
    let orders = world.orders("o", 1, 0).await;
    let mut client = world.store.client().await.unwrap();
    let closing = client.transaction().await.unwrap();
    let rows = closing.query(CLOSE, &[&orders, &"message", &NO_TRACES]).await.unwrap();
    assert_eq!(rows[0].get::<_, &str>(1), "closed");
    let paying = tokio::spawn({
        let world = Arc::clone(&world);
        async move { world.pay("o-0").await }
    });
    world.until_somebody_waits().await;
    closing.commit().await.unwrap();
    assert!(!paying.await.unwrap(), "the payment was taken");
    assert_eq!(world.status("o-0").await, "closed");
    world.assert_invariants().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_payment_after_the_close_is_refused() {
    let world = World::new().await;
    let orders = world.orders("o", 1, 0).await;
    let _worker = world.worker();
    world.publish("100ms", &orders).await;
    world.until_closed(1).await;
    assert!(!world.pay("o-0").await);
    world.assert_invariants().await;
}

/// A payment in the last instant: the deadline passes while the payment is open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn payments_at_the_very_deadline_end_one_way_or_the_other() {
    let world = Arc::new(World::new().await);
    let orders = world.orders("o", 200, 400).await;
    let worker = world.worker();
    world.publish("300ms", &orders).await;
    let until_due = "SELECT greatest(0, extract(epoch FROM min(due_at) - clock_timestamp()) * 1000)::bigint FROM orders";
    until("the deadline", async || world.number(until_due).await, |ms| *ms < 40).await;
    let payers = orders.chunks(50).map(|chunk| {
        let (world, chunk) = (Arc::clone(&world), chunk.to_vec());
        tokio::spawn(async move {
            let mut taken: u32 = 0;
            for id in &chunk {
                taken += u32::from(world.pay(id).await);
            }
            taken
        })
    });
    let taken: u32 =
        futures_util::future::join_all(payers).await.into_iter().map(|taken| taken.unwrap()).sum();
    let statuses = async || world.statuses().await;
    let statuses = until("no order unpaid", statuses, |seen| !seen.contains_key("unpaid")).await;
    assert_eq!(statuses.get("paid").copied().unwrap_or(0), i64::from(taken));
    world.until_empty("orders.unpaid").await;
    world.assert_invariants().await;
    worker.stop().await;
    world.parked(0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn closers_of_overlapping_batches_and_payers_never_deadlock() {
    let world = Arc::new(World::new().await);
    let ids = world.orders("o", 400, 0).await;
    let closers = (0..8).map(|_| {
        let (world, mut ids) = (Arc::clone(&world), ids.clone());
        tokio::spawn(async move {
            ids.shuffle(&mut rand::rng());
            let mut closed = 0;
            for batch in ids.chunks(150) {
                // Waits for a lock as long as it takes: the only error about locks is a deadlock.
                let (client, batch) = (world.store.client().await.unwrap(), batch.to_vec());
                let rows = client.query(CLOSE, &[&batch, &"message", &NO_TRACES]).await;
                let rows = rows.unwrap_or_else(|error| panic!("{error:?}"));
                closed += rows.iter().filter(|row| row.get::<_, &str>(1) == "closed").count();
            }
            closed
        })
    });
    let payers = (0..4).map(|_| {
        let (world, mut ids) = (Arc::clone(&world), ids.clone());
        tokio::spawn(async move {
            ids.shuffle(&mut rand::rng());
            let mut paid = 0;
            for id in &ids[..60] {
                // `pay` panics on any error, so on a deadlock as well.
                paid += usize::from(world.pay(id).await);
            }
            paid
        })
    });
    let tasks: Vec<_> = closers.chain(payers).collect();
    let settled = awaited("everybody's answers", futures_util::future::join_all(tasks)).await;
    let settled: usize = settled.into_iter().map(|done| done.unwrap()).sum();
    assert_eq!(settled, 400, "each order closed or paid by exactly one");
    world.assert_invariants().await;
}
