//! Orders are closed at their instant, whatever the broker does.

use overdue::internals::{broker::BrokerAddress, config::WorkerSettings};

use super::bursts::by_path;
use crate::support::{
    Proxy, Services, World, until,
    worker::{millis, settings},
    world::CLASSIC,
};

/// A worker with this prefetch count opens another channel once three quarters of it wait.
const PREFETCH: usize = 20;
const BATCH: usize = 10;

/// The broker by way of a proxy. It keeps connections that say nothing for as long as a test takes.
fn through(world: &World, broker: &Proxy) -> BrokerAddress {
    let url = world.services.broker_url(&world.vhost, Some(broker.port()));
    let next = if url.contains('?') { '&' } else { '?' };
    let url = format!("{url}{next}heartbeat=60");
    let management = Some(world.services.management.as_str());
    BrokerAddress::parse(&url, management).unwrap().with_timing(world.services.timing.clone())
}

/// The worker is about to open another channel, and gets no answer.
#[apply(world_test)]
async fn what_is_in_hand_is_closed_while_the_broker_is_frozen() {
    let world = World::clocked().await;
    let broker = Proxy::to(&world.services.broker_socket()).await;
    let few = WorkerSettings { batch_size: BATCH, in_flight: 1, hold: millis("2h"), ..settings() };
    let address = through(&world, &broker);
    let worker = world.worker_at(address, &world.services.database_url(None), few);
    // In half an hour: a clock that leaps keeps all but messages from closing them.
    let orders = world.orders("o", PREFETCH, 1_800_000).await;
    let (first, rest) = orders.split_at(PREFETCH / 2);
    world.publish("100ms", first).await;
    worker.until("held", |counts| counts.held >= first.len() as u64).await;
    broker.freeze_to_service();
    world.publish("100ms", rest).await;
    worker.until("held", |counts| counts.held >= orders.len() as u64).await;
    world.clock().advance("1 h").await;
    world.until_closed(orders.len()).await;
    assert_eq!(by_path(&world, "message").await, orders.len() as u64);
    broker.pass();
    world.assert_invariants().await;
    worker.stops_after(0, 0).await;
    assert_eq!(world.wire().await.ready("orders.unpaid").await, 0, "the acks have followed");
}

const AWAY: &str = "RabbitMQ does not answer; orders are closed on time from the table";
const BACK: &str = "RabbitMQ answers again; orders are closed by their messages";

/// Of a broker that says nothing, one that resets connections, and one that is there again.
#[apply(world_test)]
async fn while_the_broker_is_away_orders_are_closed_from_the_table() {
    for fault in [freeze, Proxy::refuse] {
        let world = World::with(Services::main(), CLASSIC).await;
        let broker = Proxy::to(&world.services.broker_socket()).await;
        let broker_url = world.services.broker_url(&world.vhost, Some(broker.port()));
        let mut process = world
            .started(|command| {
                // The product's times.
                command.env_remove("OVERDUE_TEST_TIMING").env("OVERDUE_BROKER__URL", broker_url);
            })
            .await;
        fault(&broker);
        process.until_logged(AWAY).await;
        // One after the other: none of them is found by chance.
        for n in 0..5 {
            world.orders(&format!("away{n}"), 20, 50).await;
            world.until_closed((n + 1) * 20).await;
        }
        assert_eq!(by_path(&world, "burst").await, 100);
        broker.pass();
        process.until_logged(BACK).await;
        let mut n = 0;
        let messages = async || {
            n += 1;
            world.publish_orders("100ms", &format!("back{n}"), 5, 50).await;
            by_path(&world, "message").await
        };
        until("closed by messages again", messages, |closed| *closed >= 5).await;
        world.until_closed(100 + n * 5).await;
        world.until_empty("orders.unpaid").await;
        world.assert_invariants().await;
        process.stops().await;
    }
}

fn freeze(broker: &Proxy) {
    broker.freeze_to_program();
    broker.freeze_to_service();
}

/// No session was there before.
#[apply(world_test)]
async fn a_worker_whose_broker_is_away_from_the_start_closes_orders() {
    let world = World::new().await;
    let broker = Proxy::to(&world.services.broker_socket()).await;
    broker.refuse();
    let address = through(&world, &broker);
    let worker = world.worker_at(address, &world.services.database_url(None), settings());
    world.orders("before", 600, -3_600_000).await;
    world.orders("after", 20, 200).await;
    world.until_closed(620).await;
    broker.pass();
    world.publish_orders("100ms", "later", 5, 500).await;
    world.until_closed(625).await;
    world.assert_invariants().await;
    worker.stops_after(0, 0).await;
}

/// No message comes for them, and the sweep does not look.
#[apply(world_test)]
async fn what_came_due_in_a_pause_is_closed_at_its_end() {
    let world = World::new().await;
    let mut worker = world.started(|_| {}).await;
    let pause = ["pause", "unpaid", "--for", "1h", "--why", "a test"];
    world.overdue(&pause).exits(0);
    // One message says that orders are due, and is put back for as long as the pause lasts.
    let orders = world.orders("o", 700, -1_000).await;
    world.publish("100ms", &orders[..1]).await;
    worker.until_logged("the timeout is paused").await;
    world.overdue(&["resume", "unpaid"]).exits(0);
    world.until_closed(700).await;
    world.assert_invariants().await;
    worker.stops().await;
}

/// Nothing is on the broker yet, either.
#[apply(world_test)]
async fn a_worker_starts_without_the_broker_and_declares_later() {
    let world = World::of_tables().await;
    let broker = Proxy::to(&world.services.broker_socket()).await;
    broker.refuse();
    let broker_url = world.services.broker_url(&world.vhost, Some(broker.port()));
    let mut process = world.start(|command| _ = command.env("OVERDUE_BROKER__URL", broker_url));
    process.until_logged("the broker cannot be used yet").await;
    world.orders("o", 20, 200).await;
    world.until_closed(20).await;
    broker.pass();
    let plan = async || world.overdue(&["plan", "--check"]).code;
    until("declared", plan, |code| *code == Some(0)).await;
    let mut n = 0;
    let messages = async || {
        n += 1;
        world.publish_orders("100ms", &format!("m{n}"), 5, 500).await;
        by_path(&world, "message").await
    };
    until("closed by messages", messages, |closed| *closed >= 5).await;
    world.until_closed(20 + n * 5).await;
    world.assert_invariants().await;
    process.stops().await;
}
