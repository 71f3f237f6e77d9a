//! Another client deletes the business queue under a worker, and `overdue apply` declares it again.

use crate::{
    load::{Load, Wave, publish},
    stage::{Stage, assert_unharmed, until_logged},
    support::Services,
};

const BEFORE: Wave = Wave::of(1, 50);
const AFTER: Wave = Wave::of(2, 50);

#[apply(world_test)]
async fn a_worker_consumes_again_when_its_queue_is_back() {
    let stage = Stage::on(Services::main()).await;
    let world = &stage.world;
    let load = Load::create(world, &[BEFORE, AFTER]).await;
    let worker = stage.worker().await;
    publish(world, BEFORE).await;
    world.until_closed(50).await;

    let queue = world.topology.business_queue(&world.topology.timeouts[0]);
    world.until_empty(&queue).await;
    world.delete("queues", &queue).await;
    until_logged(&worker, "this queue is not consumed", 1).await;
    world.overdue(&["apply", "--yes"]).exits(0);
    publish(world, AFTER).await;

    load.until_done(world).await;
    assert!(worker.log().contains("the broker cancelled the consumer of queue `orders.unpaid`"));
    assert_eq!(worker.logged("session ended"), 0);
    assert_unharmed(worker).await;
}
