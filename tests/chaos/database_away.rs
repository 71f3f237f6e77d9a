//! The database dies, restarts or refuses writes while orders come due: messages wait, and no retry is burnt.

use crate::{
    load::{EIGHT_SECONDS, Load, assert_nothing_parked, publish},
    stage::{Stage, assert_patient, assert_unharmed, until_logged},
    support::{Services, WorkerProcess},
};

#[apply(world_test)]
async fn orders_are_closed_once_when_the_database_is_killed() {
    survives(async |stage, worker| {
        stage.database.kill().await;
        // Something to close, however late the outage came. What comes twice does no harm.
        publish(&stage.world, EIGHT_SECONDS[0]).await;
        until_logged(worker, "orders cannot be closed", 3).await;
        assert_patient(worker);
        assert_nothing_parked(&stage.world).await;
        stage.database.start().await;
    })
    .await;
}

#[apply(world_test)]
async fn orders_are_closed_once_when_the_database_restarts() {
    survives(async |stage, _| stage.database.restart().await).await;
}

#[apply(world_test)]
async fn orders_are_closed_once_when_the_database_is_read_only_for_a_while() {
    survives(async |stage, worker| {
        stage.database.refuse_writes().await;
        publish(&stage.world, EIGHT_SECONDS[0]).await;
        until_logged(worker, "orders cannot be closed", 2).await;
        assert_eq!(worker.logged("session ended"), 0, "it gave messages back");
        assert_patient(worker);
        assert_nothing_parked(&stage.world).await;
        stage.database.accept_writes().await;
    })
    .await;
}

async fn survives(outage: impl AsyncFnOnce(&Stage, &WorkerProcess)) {
    let stage = Stage::on(Services::chaos_database()).await;
    let load = Load::create(&stage.world, &EIGHT_SECONDS).await;
    let worker = stage.worker().await;
    load.publish(&stage.world).await;
    stage.world.until_closed(50).await;

    outage(&stage, &worker).await;

    load.until_done(&stage.world).await;
    assert_unharmed(worker).await;
}
