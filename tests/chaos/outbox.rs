//! Events outlive the broker: what was written is published after it, each at least once.

use std::{cell::Cell, collections::BTreeSet};

use crate::{
    load::{Load, Wave},
    stage::{RECOVERY, Stage, assert_unharmed},
    support::{World, wait::within},
};

/// Where a subscriber collects them; durable, so that they outlive the broker as well.
const SUBSCRIBER: &str = "subscriber";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn events_are_published_when_the_broker_is_back() {
    let stage = Stage::new().await;
    let world = &stage.world;
    let waves = [Wave::of(1, 50), Wave::of(2, 50), Wave::of(5, 50)];
    subscribe(world).await;
    let load = Load::create(world, &waves).await;
    let worker = stage.worker().await;
    load.publish(world).await;
    world.until_closed(50).await;

    // Until the broker is dead, so that it dies with events on their way.
    let dead = Cell::new(false);
    let kill = async {
        stage.broker.kill().await;
        dead.set(true);
    };
    let ((), written) = tokio::join!(kill, write_events(world, &dead));
    stage.broker.start().await;

    load.until_done(world).await;
    let rest = async || world.number("SELECT count(*) FROM outbox").await;
    within(RECOVERY, "the outbox is empty", rest, |rest| *rest == 0).await;
    let closed = waves.iter().flat_map(|wave| wave.ids());
    let told = told(world).await;
    let lost: Vec<String> = closed.chain(written).filter(|order| !told.contains(order)).collect();
    assert_eq!(lost, Vec::<String>::new(), "orders whose event was lost");
    assert_unharmed(worker).await;
}

/// Writes events as closing does, until the broker is dead; the orders they are about.
async fn write_events(world: &World, dead: &Cell<bool>) -> Vec<String> {
    let mut orders = Vec::new();
    while !dead.get() {
        let batch = orders.len() / 100;
        let sql = "INSERT INTO outbox (event, order_id) \
                   SELECT 'order.closed', 'batch-$batch-' || n FROM generate_series(0, 99) n";
        world.sql(&sql.replace("$batch", &batch.to_string())).await;
        orders.extend((0..100).map(|n| format!("batch-{batch}-{n}")));
    }
    orders
}

async fn subscribe(world: &World) {
    let wire = world.wire().await;
    wire.queue(SUBSCRIBER, &[]).await;
    wire.bind(SUBSCRIBER, &world.topology.events_exchange(), "order.*").await;
}

/// The orders that the subscriber was told about.
async fn told(world: &World) -> BTreeSet<String> {
    let wire = world.wire().await;
    let mut told = BTreeSet::new();
    while let Some(event) = wire.take(SUBSCRIBER).await {
        let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap();
        told.insert(body["order_id"].as_str().unwrap().to_owned());
    }
    told
}
