//! The broker runs out of memory: it blocks who publishes, and what is due is closed all the same.

use std::{collections::BTreeMap, time::Instant};

use overdue::internals::broker::PublishError;

use crate::{
    load::{Load, Wave, publish},
    stage::{Stage, assert_unharmed, until_logged},
    support::{Services, until},
};

/// Its events are what the worker wants to publish under the alarm.
const EARLY: Wave = Wave::of(6, 100);
/// Due when the worker has given up publishing the events of the first.
const LATE: Wave = Wave::of(25, 100);

#[apply(world_test)]
async fn a_memory_alarm_blocks_publishers_and_no_worker() {
    let stage = Stage::on(Services::chaos_broker()).await;
    let world = &stage.world;
    let load = Load::create(world, &[EARLY, LATE]).await;
    let worker = stage.worker().await;
    load.publish(world).await;
    let publisher = world.publisher().await;

    stage.broker.raise_memory_alarm().await;
    let again = async || publisher.publish(world.notice("6s", "due-6s-0")).await;
    let error = until("an error", again, Result::is_err).await.unwrap_err();
    assert!(is_blocked(&error), "{error}");
    // Something to publish, however late the alarm came.
    world.sql("INSERT INTO outbox (event, order_id) VALUES ('order.closed', 'due-6s-0')").await;
    until_logged(&worker, "the relay failed", 1).await;
    world.until_closed(load.len()).await;
    assert_eq!(worker.logged("session ended"), 0, "the alarm took the worker from its messages");
    let doctor = world.overdue(&["doctor"]).exits(2);
    for error in ["error    publishing", "error    memory-alarm"] {
        assert!(doctor.stdout.contains(error), "{doctor}");
    }
    stage.broker.clear_memory_alarm().await;

    publish(world, EARLY).await;
    load.until_done(world).await;
    assert_unharmed(worker).await;
}

/// Ghosts go through retry levels to the parking lot: each of them needs a copy, and the broker takes none.
const GHOSTS: usize = 300;
const GOOD: Wave = Wave::of(7, 2_000);

#[apply(world_test)]
async fn a_memory_alarm_stops_only_the_messages_that_need_a_copy() {
    let stage = Stage::on(Services::chaos_broker()).await;
    let world = &stage.world;
    let load = Load::create(world, &[GOOD]).await;
    let worker = stage.worker().await;
    let ghosts: Vec<String> = (0..GHOSTS).map(|n| format!("ghost-{n}")).collect();
    world.publish("5s", &ghosts).await;
    load.publish(world).await;

    let alarm = Instant::now();
    stage.broker.raise_memory_alarm().await;
    world.until_closed(load.len()).await;
    let unacked = async || world.count("orders.unpaid", "messages").await;
    until("all but the ghosts acked", unacked, |left| left.is_some_and(|left| left <= 300)).await;
    assert_eq!(worker.logged("session ended"), 0, "the alarm took the worker from its messages");
    stage.broker.clear_memory_alarm().await;

    let wire = world.wire().await;
    let mut ghosts = BTreeMap::<Option<String>, usize>::new();
    let parked = async || {
        while let Some(message) = wire.take("orders.parked").await {
            *ghosts.entry(message.message_id).or_default() += 1;
        }
        ghosts.len()
    };
    until("every one parked", parked, |parked| *parked == GHOSTS).await;
    // No copy has waited for longer than that.
    let until_over = alarm.elapsed();
    world.until_empty("orders.unpaid").await;
    while let Some(message) = wire.take("orders.parked").await {
        *ghosts.entry(message.message_id).or_default() += 1;
    }
    // A machine may be slow; then a copy had no confirm in time and was published once more.
    if until_over < world.services.timing.confirm {
        let twice: Vec<_> = ghosts.iter().filter(|(_, times)| **times > 1).collect();
        assert!(twice.is_empty(), "after an alarm of {until_over:?}: {twice:?}");
    }
    assert_eq!(ghosts.len(), GHOSTS);
    assert_eq!(worker.logged("session ended"), 0);
}

fn is_blocked(error: &PublishError) -> bool {
    match error {
        PublishError::Blocked { .. } => true,
        PublishError::Unknown { reason, .. } => reason.contains("blocked"),
        _ => false,
    }
}
