//! Orders are closed at their instant, whatever the broker does.

use overdue::internals::{broker::BrokerAddress, config::WorkerSettings};

use super::bursts::by_path;
use crate::support::{
    Proxy, World, until,
    worker::{millis, settings},
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
    assert_ne!(world.unacked("orders.unpaid").await, Some(0), "the broker has heard of it");
    broker.pass();
    let unacked = async || world.unacked("orders.unpaid").await;
    until("acked", unacked, |unacked| *unacked == Some(0)).await;
    world.assert_invariants().await;
    worker.stops_after(0, 0).await;
}
