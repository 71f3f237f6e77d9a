//! Broker and database die together.

use crate::{
    load::{EIGHT_SECONDS, Load},
    stage::{Stage, assert_unharmed, until_logged},
    support::Services,
};

#[apply(world_test)]
async fn orders_are_closed_once_when_broker_and_database_are_killed() {
    let stage = Stage::on(Services::chaos()).await;
    let load = Load::create(&stage.world, &EIGHT_SECONDS).await;
    let worker = stage.worker().await;
    load.publish(&stage.world).await;
    stage.world.until_closed(50).await;

    tokio::join!(stage.broker.kill(), stage.database.kill());
    until_logged(&worker, "session ended", 2).await;
    tokio::join!(stage.broker.start(), stage.database.start());

    load.until_done(&stage.world).await;
    assert_unharmed(worker).await;
}
