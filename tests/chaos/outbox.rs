//! Events outlive the broker: what was written is published after it, each at least once.

use std::{cell::Cell, collections::BTreeSet};

use crate::{
    load::{Load, Wave},
    stage::{Stage, assert_unharmed},
    support::{Parked, Services, World, ids, until},
};

/// Where a subscriber collects them; durable, so that they outlive the broker as well.
const SUBSCRIBER: &str = "subscriber";
/// More events than the relay takes at once.
const BACKLOG: i64 = 5_000;
/// A relay has the outbox (`sql/outgoing_lead.sql`) while they are in it.
const CLAIMED: &str = "
    SELECT count(*) FROM outbox WHERE order_id LIKE 'written-%'
       AND EXISTS (SELECT FROM pg_locks WHERE locktype = 'advisory' AND granted AND classid = 'outbox'::regclass)";

#[apply(world_test)]
async fn events_are_published_when_the_broker_is_back() {
    let stage = Stage::on(Services::chaos_broker()).await;
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
        until(
            "written events on their way",
            async || world.number(CLAIMED).await,
            |claimed| *claimed > 0,
        )
        .await;
        stage.broker.kill().await;
        dead.set(true);
    };
    let ((), written) = tokio::join!(kill, write_events(world, &dead));
    stage.broker.start().await;

    load.until_done(world).await;
    let rest = async || world.number("SELECT count(*) FROM outbox").await;
    until("the outbox is empty", rest, |rest| *rest == 0).await;
    let closed = waves.iter().flat_map(|wave| wave.ids());
    let announced = announced(world).await;
    let lost: Vec<String> =
        closed.chain(ids("written", written)).filter(|order| !announced.contains(order)).collect();
    assert_eq!(lost, Vec::<String>::new(), "orders whose event was lost");
    assert_unharmed(worker).await;
}

/// Writes events as closing does, faster than they are published, until the broker is dead; of how many orders.
async fn write_events(world: &World, dead: &Cell<bool>) -> usize {
    let mut written = 0;
    while !dead.get() {
        if world.number("SELECT count(*) FROM outbox").await < BACKLOG {
            let sql = "INSERT INTO outbox (event, order_id) \
                       SELECT 'order.closed', 'written-' || n FROM generate_series($first, $last) n";
            let (first, last) = (written.to_string(), (written + 499).to_string());
            world.sql(&sql.replace("$first", &first).replace("$last", &last)).await;
            written += 500;
        }
    }
    written
}

async fn subscribe(world: &World) {
    let wire = world.wire().await;
    wire.queue(SUBSCRIBER, &[]).await;
    wire.bind(SUBSCRIBER, &world.topology.events_exchange(), "order.*").await;
}

/// The orders whose event the subscriber got.
async fn announced(world: &World) -> BTreeSet<String> {
    let wire = world.wire().await;
    // All at once: there are tens of thousands where the broker was long in dying.
    let events = wire.take_all(SUBSCRIBER).await.into_iter();
    let order = |event: Parked| {
        let body: serde_json::Value = serde_json::from_slice(&event.body).unwrap();
        body["order_id"].as_str().unwrap().to_owned()
    };
    events.map(order).collect()
}
