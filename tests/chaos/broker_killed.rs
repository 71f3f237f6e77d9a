//! The broker is killed while workers do not sweep: a storm's sweep would close the order of a lost notice before anything shows it.

use std::time::Duration;

use crate::{
    containers::Container,
    load::{Load, Wave, publish},
    stage::{Stage, assert_unharmed},
    support::Services,
};

/// Published until the broker is dead.
const ALONG: Wave = Wave::of(1, 200);
/// Due before, while and after it is away.
const WAITING: [Wave; 4] = [Wave::of(2, 50), Wave::of(4, 50), Wave::of(5, 50), Wave::of(7, 50)];

#[apply(world_test)]
async fn each_notice_that_was_confirmed_outlives_the_broker_and_closes_its_order() {
    let stage = Stage::on(Services::chaos_broker()).await;
    let world = &stage.world;
    let load = Load::create(world, &[&[ALONG][..], &WAITING].concat()).await;
    let no_sweep = |command: &mut std::process::Command| {
        command.env("OVERDUE_WORKER__SWEEP_EVERY", "1h");
    };
    let worker = stage.worker_with(no_sweep).await;
    for wave in WAITING {
        publish(world, wave).await;
    }
    let (publisher, along) = (world.publisher().await, ALONG.ids());
    let publishing = async {
        // Round and round, for as long as the broker is there: what comes twice closes nothing.
        for (count, id) in along.iter().cycle().enumerate() {
            if publisher.publish(world.notice("1s", id)).await.is_err() {
                return along.get(count..).unwrap_or_default();
            }
        }
        &[]
    };
    let (unconfirmed, ()) = tokio::join!(publishing, stage.broker.kill_for(Duration::from_secs(1)));
    world.publish("1s", unconfirmed).await;
    load.until_done(world).await;
    let otherwise = "SELECT count(*) FROM closures WHERE path <> 'message'";
    assert_eq!(world.number(otherwise).await, 0, "{}", worker.log());
    assert_unharmed(worker).await;
}
