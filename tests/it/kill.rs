//! SIGKILL at the moments that matter: every order is closed exactly once afterwards.
//!
//! The worker reaches broker and database through proxies, which hold back what it says or hears: so it can be
//! killed after the commit and before the ack, without a seam in the program.

use crate::support::{Proxy, RunningWorker, WorkerProcess, World, until};

struct Behind {
    broker: Proxy,
    database: Proxy,
}

impl Behind {
    async fn new(world: &World) -> Self {
        Self {
            broker: Proxy::to(&world.services.broker_socket()).await,
            database: Proxy::to(&world.services.database_socket()).await,
        }
    }

    async fn worker(&self, world: &World) -> WorkerProcess {
        let broker = world.services.broker_url(&world.vhost, Some(self.broker.port()));
        let database = world.services.database_url(Some(self.database.port()));
        world
            .started(|command| {
                command.env("OVERDUE_BROKER__URL", broker).env("OVERDUE_DATABASE__URL", database);
            })
            .await
    }
}

/// The next worker gets every message again and ends with each order closed once.
async fn next_worker_ends_well(world: &World, orders: usize, closed_before: u64) {
    let next = world.worker();
    world.until_closed(orders).await;
    let all = u64::try_from(orders).unwrap();
    let counts = async || world_settled(&next);
    until("every message settled", counts, |settled| *settled >= all).await;
    let counts = next.stop().await;
    assert_eq!(counts.closed, all - closed_before);
    // The ack of an order before these may have been lost with them.
    assert!((closed_before..=closed_before + 1).contains(&counts.already_final), "{counts:?}");
    assert_eq!((counts.retried, counts.parked), (0, 0));
    world.assert_invariants().await;
    world.until_empty("orders.unpaid").await;
    world.parked(0).await;
}

fn world_settled(worker: &RunningWorker) -> u64 {
    let counts = worker.counts();
    counts.closed + counts.already_final
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_between_commit_and_ack() {
    let world = World::new().await;
    let behind = Behind::new(&world).await;
    let orders = world.orders("o", 100, 0).await;
    let mut process = behind.worker(&world).await;
    // After a first one it takes many at once, on another channel; after a second one the change is over.
    for (closed, name) in [(1, "first"), (2, "second")] {
        world.publish("100ms", &world.orders(name, 1, 0).await).await;
        world.until_closed(closed).await;
    }
    // Deliveries come in; no ack gets out.
    behind.broker.freeze_to_service();
    world.publish("100ms", &orders).await;
    world.until_closed(102).await;
    process.kill();
    next_worker_ends_well(&world, 100, 100).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_the_statement_is_on_its_way() {
    let world = World::new().await;
    let behind = Behind::new(&world).await;
    let orders = world.orders("o", 100, 0).await;
    let wire = world.wire().await;
    let mut process = behind.worker(&world).await;
    behind.database.freeze_to_service();
    world.publish("100ms", &orders).await;
    let in_hand =
        async || (wire.ready("orders.unpaid").await, wire.ready("orders.delay.100ms").await);
    until("all in hand", in_hand, |ready| *ready == (0, 0)).await;
    assert_eq!(world.closed().await, 0);
    process.kill();
    next_worker_ends_well(&world, 100, 0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_while_the_answer_of_the_commit_is_on_its_way() {
    let world = World::new().await;
    let behind = Behind::new(&world).await;
    let orders = world.orders("o", 100, 0).await;
    let mut client = world.store.client().await.unwrap();
    let held = world.stall(&mut client, "o-0").await;
    let mut process = behind.worker(&world).await;
    // Alone: this one would not wait for long for the stock that a batch beside it holds.
    world.publish("100ms", &orders[..1]).await;
    world.until_stalled().await;
    behind.database.freeze_to_program();
    held.rollback().await.unwrap();
    // Committed; the worker never hears of it.
    let first = async || world.status("o-0").await;
    until("a commit", first, |status| status == "closed").await;
    world.publish("100ms", &orders[1..]).await;
    process.kill();
    let next = world.worker();
    world.until_closed(100).await;
    let counts = async || next.counts();
    until("the first one is asked for again", counts, |counts| counts.already_final > 0).await;
    next.stop().await;
    // What it had in hand it has given back, and somebody else settles it.
    let given_back = world.wire().await.ready("orders.unpaid").await;
    let last = world.worker();
    let settled = async || {
        let counts = last.counts();
        (world.wire().await.ready("orders.unpaid").await, counts.closed + counts.already_final)
    };
    until("settled", settled, |(ready, done)| *ready == 0 && *done >= u64::from(given_back)).await;
    last.stop().await;
    world.assert_invariants().await;
    world.parked(0).await;
}

/// Killed anywhere: again and again while orders become due.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_at_random_moments() {
    let world = World::new().await;
    let mut process = world.started(|_| {}).await;
    for n in 0..5 {
        let before = world.closed().await;
        let part = world.orders(&format!("o{n}"), 400, 0).await;
        world.publish("100ms", &part).await;
        until("some closed", async || world.closed().await, |closed| *closed > before).await;
        process.kill();
        process = world.started(|_| {}).await;
    }
    world.until_closed(2_000).await;
    world.until_empty("orders.unpaid").await;
    world.assert_invariants().await;
    world.parked(0).await;
}
