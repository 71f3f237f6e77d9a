//! The broker is killed while no worker consumes: a worker would close the order of a lost notice and hide the loss.

use std::{collections::BTreeSet, time::Duration};

use crate::{
    containers::Container,
    load::{Wave, publish},
    stage::Stage,
    support::Services,
};

/// A publisher repeats these until the broker is dead.
const ALONG: Wave = Wave::of(1, 200);
/// Waves that are due before, during and after the outage.
const WAITING: [Wave; 4] = [Wave::of(2, 50), Wave::of(4, 50), Wave::of(5, 50), Wave::of(7, 50)];

#[apply(world_test)]
async fn each_notice_that_was_confirmed_outlives_the_broker() {
    let stage = Stage::on(Services::chaos_broker()).await;
    let world = &stage.world;
    for wave in WAITING {
        publish(world, wave).await;
    }
    let (publisher, along) = (world.publisher().await, ALONG.ids());
    let publishing = async {
        // Repeats all ids until the broker is gone.
        for (count, id) in along.iter().cycle().enumerate() {
            if publisher.publish(world.notice("1s", id)).await.is_err() {
                return along.get(count..).unwrap_or_default();
            }
        }
        &[]
    };
    let (unconfirmed, ()) = tokio::join!(publishing, stage.broker.kill_for(Duration::from_secs(1)));
    let confirmed = WAITING.into_iter().flat_map(Wave::ids).chain(along.iter().cloned());
    let mut missing: BTreeSet<String> = confirmed.collect();
    for id in unconfirmed {
        missing.remove(id);
    }
    let wire = world.wire().await;
    while !missing.is_empty() {
        for message in wire.take_many("orders.unpaid", 1).await {
            missing.remove(&message.message_id.unwrap());
        }
    }
}
