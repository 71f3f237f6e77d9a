//! The primary is gone, and an asynchronous standby takes its place that lacks its last transactions (docs/failover.md).

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    pair::Pair,
    support::{Services, Wire, WorkerProcess, World, pooler::Pooler, until},
};

/// Levels for what comes due while the primary is being replaced.
const TOPOLOGY: &str = r#"
name = "orders"

[delay]
levels = ["100ms", "1s", "2s", "3s", "4s", "30m"]

[[timeout]]
name = "unpaid"
after = "1s"

[retry]
after = ["100ms", "1s"]
"#;

/// The `message-id`s of the event of each order.
type Announced = BTreeMap<String, BTreeSet<String>>;

async fn collect(wire: &Wire, subscriber: &str, announced: &mut Announced) {
    while let Some(message) = wire.take(subscriber).await {
        assert_eq!(message.key, "order.closed");
        let body: serde_json::Value = serde_json::from_slice(&message.body).unwrap();
        let order = body["order_id"].as_str().unwrap().to_owned();
        announced.entry(order).or_default().insert(message.message_id.unwrap());
    }
}

/// A worker that sweeps everything that is overdue.
async fn worker(world: &World, database: &str) -> WorkerProcess {
    world
        .started(|command| {
            command.env("OVERDUE_DATABASE__URL", database);
            command.env("OVERDUE_WORKER__SWEEP_EVERY", "100ms");
            command.env("OVERDUE_WORKER__SWEEP_GRACE", "1s");
        })
        .await
}

async fn until_published(world: &World) {
    let waiting = "SELECT (SELECT count(*) FROM outbox) + (SELECT count(*) FROM outbox_refused)";
    let waits = async || world.number(waiting).await;
    until("no event waits", waits, |waits| *waits == 0).await;
}

#[apply(world_test)]
async fn what_an_asynchronous_standby_lacks_is_closed_and_announced_again() {
    let pair = Pair::start().await;
    let services = Services { database: pair.primary(), ..Services::main() };
    let mut world = World::with(services, TOPOLOGY).await;
    let wire = world.wire().await;
    let subscriber = wire.listen("orders.events", "#").await;
    let mut announced = Announced::new();

    let both = pair.both();
    let first = worker(&world, &both).await;
    let kept = world.publish_orders("100ms", "kept", 50, 0).await;
    world.until_closed(50).await;
    until_published(&world).await;
    first.stopped().await;
    let lost = world.orders("lost", 200, 0).await;
    for (level, seconds) in [("1s", 1), ("2s", 2), ("3s", 3), ("4s", 4)] {
        world.publish_orders(level, &format!("coming-{seconds}"), 50, seconds * 1_000).await;
    }
    let later = world.publish_orders("100ms", "later", 5, 3_600_000).await;
    pair.caught_up().await;

    // From here on the primary is the only one that knows.
    pair.cut().await;
    let unknown = world.orders("unknown", 2, 3_600_000).await;
    world.publish("100ms", &lost).await;
    let workers = [worker(&world, &both).await, worker(&world, &both).await];
    let closed =
        async || world.number("SELECT count(*) FROM closures WHERE order_id LIKE 'lost-%'").await;
    until("200 closed on the primary", closed, |closed| *closed == 200).await;
    let all_announced = async || {
        collect(&wire, &subscriber, &mut announced).await;
        lost.iter().chain(&kept).filter(|order| announced.contains_key(*order)).count()
    };
    until("all announced once", all_announced, |orders| *orders == 250).await;
    let lacks = format!(
        "SELECT count(*) FROM {schema}.closures WHERE order_id LIKE 'lost-%'",
        schema = world.schema
    );
    assert_eq!(pair.standby_says(&lacks).await, "0");
    let before = announced.clone();

    pair.fail_over().await;
    world.moves_to(pair.standby());
    world.publish("100ms", &unknown).await;
    world.until_closed(450).await;
    until_published(&world).await;
    world.assert_invariants().await;
    assert_eq!(world.number("SELECT count(*) FROM closures").await, 450, "each once");
    for id in &later {
        assert_eq!(world.status(id).await, "unpaid");
    }
    let by_sweep = "SELECT count(*) FROM closures WHERE order_id LIKE 'lost-%' AND path = 'sweep'";
    assert!(world.number(by_sweep).await > 0);

    // Another `message-id`, the same order: that is what a subscriber has to go by.
    let twice = async || {
        collect(&wire, &subscriber, &mut announced).await;
        lost.iter().filter(|order| announced[*order].len() >= 2).count()
    };
    until("announced again", twice, |twice| *twice == 200).await;
    assert!(kept.iter().all(|order| announced[order] == before[order]), "what it had is not");
    assert!(!later.iter().chain(&unknown).any(|order| announced.contains_key(order)));
    // Its order was never there.
    let parked = world.parked(2).await;
    let unheard = "the database does not know this order";
    assert!(parked.iter().all(|it| it.reason().starts_with(unheard)), "{parked:?}");
    for worker in workers {
        worker.stopped().await;
    }
}

/// The pooler leads the worker's idle connection to the new primary, while the transaction with the lock is on the old one.
#[apply(world_test)]
async fn behind_a_pooler_no_event_is_deleted_for_one_that_the_old_primary_had() {
    let pair = Pair::start().await;
    let services = Services { database: pair.primary(), ..Services::main() };
    let mut world = World::with(services, TOPOLOGY).await;
    let Some(pooler) = Pooler::of(&world).await else { return };
    let wire = world.wire().await;
    let subscriber = wire.listen("orders.events", "#").await;
    pair.caught_up().await;
    pair.cut().await;
    let insert = |order: &str| {
        format!("INSERT INTO outbox (event, order_id) VALUES ('order.closed', '{order}')")
    };
    world.sql(&insert("old")).await;
    let mut client = world.store.client().await.unwrap();
    let held = client.transaction().await.unwrap();
    assert_eq!(held.execute("SELECT FROM outbox FOR UPDATE", &[]).await.unwrap(), 1);
    let mut announced = Announced::new();
    let worker = worker(&world, &pooler.url()).await;
    let mut until_announced = async |order: &str| {
        let seen = async || {
            collect(&wire, &subscriber, &mut announced).await;
            announced.contains_key(order)
        };
        until("announced", seen, |seen| *seen).await;
    };
    until_announced("old").await;
    // It is published, cannot be deleted, and will be tried again.
    pair.promote().await;
    world.moves_to(pair.standby());
    world.sql(&insert("new")).await;
    assert_eq!(world.number("SELECT id FROM outbox").await, 1, "the number of the old one");
    pooler.moves_to(&world.services.database);
    // Deleted for the old one, it would never be announced.
    until_announced("new").await;
    until_published(&world).await;
    worker.stopped().await;
    drop(held);
}
