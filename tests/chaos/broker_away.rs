//! The broker dies, or restarts, while orders come due and order services publish.

use crate::{
    load::{EIGHT_SECONDS, Load, Producer, Wave, assert_outage, publish},
    stage::{Stage, assert_unharmed},
    support::Services,
};

/// Published through the outage, which takes a while to come.
const IN_THE_OUTAGE: Wave = Wave::of(1, 1_500);

#[apply(world_test)]
async fn orders_are_closed_once_when_the_broker_is_killed() {
    survives(async |stage| {
        stage.broker.kill().await;
        stage.broker.start().await;
    })
    .await;
}

#[apply(world_test)]
async fn orders_are_closed_once_when_the_broker_restarts() {
    survives(async |stage| stage.broker.restart().await).await;
}

async fn survives(outage: impl AsyncFnOnce(&Stage)) {
    let stage = Stage::on(Services::chaos_broker()).await;
    let world = &stage.world;
    let waves = [&[IN_THE_OUTAGE], &EIGHT_SECONDS[1..]].concat();
    let load = Load::create(world, &waves).await;
    let worker = stage.worker().await;
    for wave in &EIGHT_SECONDS[1..] {
        publish(world, *wave).await;
    }
    world.until_closed(50).await;

    let producer = Producer::new(world, IN_THE_OUTAGE);
    let outage = async {
        producer.until_confirmed(20).await;
        outage(&stage).await;
    };
    let (errors, ()) = tokio::join!(producer.run(), outage);

    assert_outage(&errors);
    load.until_done(world).await;
    assert_unharmed(worker).await;
}
