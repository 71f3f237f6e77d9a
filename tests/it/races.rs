//! A payment against a worker: the first commit wins, and stock is conserved. `interleavings.rs` runs every order of their
//! statements.

use std::sync::Arc;

use crate::support::{World, until};

/// A payment in the last instant: the deadline passes while the payment's transaction is open.
#[apply(world_test)]
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
