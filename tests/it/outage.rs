//! Broker and database fail and recover: no restart, no loss, no retry used, no message parked.

use std::ops::Range;

use crate::support::{Proxy, WorkerProcess, World, until};

struct Run {
    world: World,
    broker: Proxy,
    database: Proxy,
    process: WorkerProcess,
    orders: Vec<String>,
}

/// The levels of the orders, each with a part of them.
const LEVELS: [&str; 4] = ["100ms", "300ms", "500ms", "1s"];
const PART: usize = 100;
const ALL: usize = LEVELS.len() * PART;

/// Starts a worker process behind proxies, and creates orders whose messages arrive within a second and a half. The orders are too few for
/// a burst, so each is closed by its message.
async fn run() -> Run {
    let world = World::new().await;
    let broker = Proxy::to(&world.services.broker_socket()).await;
    let database = Proxy::to(&world.services.database_socket()).await;
    let broker_url = world.services.broker_url(&world.vhost, Some(broker.port()));
    let database_url = world.services.database_url(Some(database.port()));
    let process = world
        .started(|command| {
            command
                .env("OVERDUE_BROKER__URL", broker_url)
                .env("OVERDUE_DATABASE__URL", database_url)
                .env("OVERDUE_WORKER__BATCH_SIZE", "20");
        })
        .await;
    let orders = world.orders("o", ALL, 0).await;
    Run { world, broker, database, process, orders }
}

impl Run {
    /// Publishes the orders over several levels, so that they arrive before, during and after the outage.
    async fn publish(&self) {
        self.publish_parts(0..LEVELS.len()).await;
    }

    /// Returns when some orders are closed and the last ones were published just now.
    async fn publish_until_some_closed(&self) {
        self.publish_parts(0..3).await;
        self.world.until_closed(1).await;
        self.publish_parts(3..LEVELS.len()).await;
    }

    /// Publishes all parts but the first.
    async fn publish_rest(&self) {
        for (part, level) in self.orders[1..].chunks(PART).zip(LEVELS) {
            self.world.publish(level, part).await;
        }
    }

    async fn publish_parts(&self, parts: Range<usize>) {
        for part in parts {
            let orders = &self.orders[part * PART..(part + 1) * PART];
            self.world.publish(LEVELS[part], orders).await;
        }
    }

    async fn ends_well(mut self) {
        let Self { world, process, .. } = &mut self;
        world.until_closed(ALL).await;
        world.until_empty("orders.unpaid").await;
        assert!(process.is_running());
        world.assert_invariants().await;
        // No order was retried or parked.
        assert!(!process.log().contains("parked"), "{}", process.log());
        world.parked(0).await;
        process.stops().await;
        let log = process.log();
        // Orders may be requeued while statements of an earlier session still lock them.
        assert!(log.contains("retried=0 parked=0"), "{log}");
    }
}

/// Failed attempts after which the pauses between them are at their maximum.
const MANY: usize = 6;
const LONGEST_PAUSE_MS: u64 = 5_000;

/// The pauses in the log, in milliseconds.
fn pauses(log: &str) -> Vec<u64> {
    let values = log.split("retry_in_ms=").skip(1);
    let digits = |text: &str| text.chars().take_while(char::is_ascii_digit).collect::<String>();
    values.map(|text| digits(text).parse().unwrap()).collect()
}

/// After the recovery of the peer, the first new attempt succeeds, and it begins within five seconds.
async fn goes_on_with_the_first_attempt(run: Run, failed: &str, back: impl FnOnce(&Run)) {
    back(&run);
    let before = run.process.logged(failed);
    run.world.until_closed(ALL).await;
    let log = run.process.log();
    // An attempt may have been running.
    assert!(run.process.logged(failed) <= before + 1, "{log}");
    let pauses = pauses(&log);
    assert!(pauses.len() >= before, "{log}");
    assert!(pauses.iter().all(|pause| *pause <= LONGEST_PAUSE_MS), "{pauses:?}");
    run.ends_well().await;
}

/// The attempt that runs when a frozen peer answers again succeeds: no second attempt is needed.
#[apply(world_test)]
async fn a_broker_that_is_cut_off_or_frozen_is_waited_for() {
    let after = |fault: fn(&Proxy), failures: usize| async move {
        let run = run().await;
        run.publish_until_some_closed().await;
        fault(&run.broker);
        let sessions = async || run.process.logged("session ended");
        until("failed sessions", sessions, |count| *count >= failures).await;
        goes_on_with_the_first_attempt(run, "session ended", |run| run.broker.pass()).await;
    };
    tokio::join!(
        after(Proxy::cut, 1),
        after(Proxy::refuse, MANY),
        after(Proxy::freeze_to_program, 1)
    );
}

/// Messages stay unacked meanwhile, and no worker requeues them.
#[apply(world_test)]
async fn a_database_that_is_cut_off_or_frozen_is_waited_for() {
    let after = |fault: fn(&Proxy), failures: usize| async move {
        let run = run().await;
        fault(&run.database);
        run.publish().await;
        let failed = async || run.process.logged("orders cannot be closed");
        until("failed attempts", failed, |count| *count >= failures).await;
        if failures == MANY {
            assert_eq!(run.process.logged("session ended"), 0, "{}", run.process.log());
        }
        goes_on_with_the_first_attempt(run, "orders cannot be closed", |run| run.database.pass())
            .await;
    };
    // Broken idle connections are replaced without a log line.
    tokio::join!(
        after(Proxy::cut, 0),
        after(Proxy::refuse, MANY),
        after(Proxy::freeze_to_program, 1)
    );
}

/// The sweep needs no broker.
#[apply(world_test)]
async fn while_the_broker_is_away_the_sweep_closes_what_is_overdue() {
    let world = World::new().await;
    let broker = Proxy::to(&world.services.broker_socket()).await;
    let broker_url = world.services.broker_url(&world.vhost, Some(broker.port()));
    let mut process = world
        .started(|command| {
            command
                .env("OVERDUE_BROKER__URL", broker_url)
                .env("OVERDUE_WORKER__SWEEP_EVERY", "200ms")
                .env("OVERDUE_WORKER__SWEEP_GRACE", "0s");
        })
        .await;
    broker.refuse();
    process.until_logged("session ended").await;
    world.orders("o", 30, 0).await;
    world.until_closed(30).await;
    broker.pass();
    world.publish_orders("1s", "later", 10, 1_000).await;
    world.until_closed(40).await;
    world.assert_invariants().await;
    process.stops().await;
}

/// The statement was carried out and the answer lost: the repeated statement finds the order closed.
#[apply(world_test)]
async fn a_database_connection_that_is_cut_before_the_answer_closes_nothing_twice() {
    let mut run = run().await;
    let mut client = run.world.store.client().await.unwrap();
    let held = run.world.stall(&mut client, "o-0").await;
    // Published alone: this batch would not wait long for stock rows that another batch locks.
    run.world.publish(LEVELS[0], &run.orders[..1]).await;
    run.world.until_stalled().await;
    run.database.freeze_to_program();
    held.rollback().await.unwrap();
    let first = async || run.world.status("o-0").await;
    until("a commit that the worker does not hear of", first, |status| status == "closed").await;
    drop(client);
    run.publish_rest().await;
    run.database.cut();
    run.database.pass();
    run.process.until_logged("orders cannot be closed").await;
    run.ends_well().await;
}

#[apply(world_test)]
async fn both_away_and_back_in_either_order() {
    for broker_first in [true, false] {
        let run = run().await;
        run.publish_until_some_closed().await;
        run.broker.refuse();
        run.database.refuse();
        let sessions = async || run.process.logged("session ended");
        until("a failed session", sessions, |count| *count >= 1).await;
        let (first, second) =
            if broker_first { (&run.broker, &run.database) } else { (&run.database, &run.broker) };
        first.pass();
        let before = run.process.logged("session ended");
        let sessions = async || run.process.logged("session ended");
        until("one alone is not enough", sessions, |count| *count > before).await;
        second.pass();
        run.ends_well().await;
    }
}

#[apply(world_test)]
async fn a_business_queue_that_is_deleted_and_declared_again_is_consumed_again() {
    let world = World::new().await;
    let mut process = world.started(|_| {}).await;
    world.delete("queues", "orders.unpaid").await;
    process.until_logged("this queue is not consumed").await;
    world.overdue(&["apply", "--yes"]).exits(0);
    world.publish_orders("100ms", "o", 10, 0).await;
    world.until_closed(10).await;
    assert!(process.is_running());
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
    world.assert_invariants().await;
}
