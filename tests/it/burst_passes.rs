//! A burst that is stalled in the middle: the orders that are due meanwhile, and the orders that it skips.

use overdue::internals::store::Connection;

use super::{burst_faults::LOCK, bursts::by_path};
use crate::support::{WorkerProcess, World, hold, until};

/// Orders of a burst, and how many of them have a message.
const BURST: usize = 5_000;
const SENT: usize = 700;
/// An order stalls its page of 2,000; all others are closed.
const NOT_STALLED: i64 = 3_000;

/// Starts a run that closes the burst except the page with `o-4999`, where it stalls until the transaction ends.
async fn stalled_run<'a>(
    world: &World,
    client: &'a mut Connection,
) -> (WorkerProcess, deadpool_postgres::Transaction<'a>) {
    let first = world.orders("first", 1, 0).await;
    let held = world.stall(client, "first-0").await;
    let too = "CREATE TRIGGER stall_too BEFORE UPDATE ON orders FOR EACH ROW \
               WHEN (NEW.id = 'o-4999' AND NEW.status = 'closed') EXECUTE FUNCTION stall()";
    world.sql(too).await;
    let process = world.started(|command| {
        command.env("OVERDUE_WORKER__BATCH_AGE", "1m");
        command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h");
        command.env("OVERDUE_LOG__FILTER", "info,overdue=debug");
    });
    let process = process.await;
    world.publish("100ms", &world.orders("alone", 1, 0).await).await;
    world.until_closed(1).await;
    world.publish("100ms", &first).await;
    world.until_stalled().await;
    // Without stock: otherwise the stalled page would lock stock rows of other pages, whose orders mostly have no message.
    let orders = world.orders_without_stock("o", BURST).await;
    world.publish("100ms", &orders[..SENT]).await;
    let closed = async || world.closed().await;
    until("all pages but one", closed, |closed| *closed > NOT_STALLED).await;
    (process, held)
}

/// These orders have no message, and the sweep does not run.
#[apply(world_test)]
async fn what_becomes_due_during_a_run_is_closed_before_its_end() {
    const ENDED: &str = "a burst was closed";
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let (mut process, held) = stalled_run(&world, &mut client).await;
    world.orders_without_stock("late", 500).await;
    assert_eq!(process.logged(ENDED), 0, "{}", process.log());
    held.commit().await.unwrap();
    world.until_closed(BURST + 502).await;
    process.until_logged(ENDED).await;
    let in_burst = by_path(&world, "burst").await;
    let in_one_run = format!("closed={in_burst} ");
    assert!(process.log().contains(&in_one_run), "{in_one_run}: {}", process.log());
    world.until_empty("orders.unpaid").await;
    world.assert_invariants().await;
}

/// Each pass begins with the locked order, and leaves it to its message.
#[apply(world_test)]
async fn a_locked_oldest_order_of_a_burst_makes_no_other_one_wait_for_the_end_of_the_run() {
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let oldest = world.orders("oldest", 1, -60_000).await;
    let mut other = world.store.client().await.unwrap();
    let locked = hold(&mut other, "oldest-0").await;
    let (_process, held) = stalled_run(&world, &mut client).await;
    world.publish("100ms", &oldest).await;
    held.commit().await.unwrap();
    world.until_closed(BURST + 2).await;
    assert_eq!(world.status("oldest-0").await, "unpaid");
    locked.rollback().await.unwrap();
    world.until_closed(BURST + 3).await;
    world.until_empty("orders.unpaid").await;
    world.assert_invariants().await;
}

/// The worker's statement still runs, and its lock is released.
#[apply(world_test)]
async fn a_worker_that_is_stuck_in_a_page_leaves_the_burst_to_others() {
    let world = World::new().await;
    let mut client = world.store.client().await.unwrap();
    let (_process, held) = stalled_run(&world, &mut client).await;
    let mut other = world.store.client().await.unwrap();
    let is_free = async || {
        let asking = other.transaction().await.unwrap();
        asking.query_one(LOCK, &[]).await.unwrap().get::<_, bool>(0)
    };
    until("the lock is free", is_free, |is_free| *is_free).await;
    assert_eq!(world.status("o-4999").await, "unpaid");
    held.commit().await.unwrap();
    world.until_closed(BURST + 2).await;
    world.assert_invariants().await;
}
