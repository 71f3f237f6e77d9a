//! Every kind of change under load, counting every message: none is lost, none is early.

mod message_log;
mod scenario;
mod under_load;

use std::sync::Arc;

use futures_util::future::join_all;
use lapin::BasicProperties;

use self::{
    scenario::{Kind, Scenario},
    under_load::{Measured, UnderLoad, consume},
};
use crate::support::{Wire, World, until};

const MESSAGES: usize = 300;

/// Makes these changes side by side.
async fn measured(world: &World, scenarios: Vec<Scenario>) -> Vec<(Kind, Measured)> {
    let kinds: Vec<Kind> = scenarios.iter().map(|scenario| scenario.kind).collect();
    let changes = scenarios.into_iter().map(UnderLoad::new).map(Arc::new);
    let changes: Vec<Arc<UnderLoad>> = changes.collect();
    let (management, run) = (world.management(), |change| UnderLoad::run(change, world, MESSAGES));
    let measured = tokio::select! {
        measured = join_all(changes.iter().map(|change| run(change))) => measured,
        never = consume(&management, &changes) => match never {},
    };
    kinds.into_iter().zip(measured).collect()
}

#[apply(world_test)]
async fn no_kind_of_change_loses_a_message_or_lets_one_out_early() {
    let world = World::empty().await;
    let scenario = |kind: Kind| {
        // Where a level goes, longer than an old count can hide what waits in it.
        let levels = if kind == Kind::LevelRemoved { ["8s", "4s"] } else { ["4s", "2s"] };
        Scenario::new(kind, &format!("{kind:?}").to_lowercase(), levels)
    };
    for (kind, measured) in measured(&world, Kind::ALL.map(scenario).into()).await {
        println!("{kind:?}: {measured}");
        let counts = measured.counts;
        let wrong = [counts.lost, counts.early, counts.misdirected, counts.foreign];
        assert_eq!(wrong, [0; 4], "{kind:?}: {measured}");
        assert_eq!(counts.published, counts.received + counts.parked, "{kind:?}: {measured}");
        assert!(counts.waiting > 0 && counts.published > MESSAGES, "{kind:?}: {measured}");
        // Twenty are published as before when that no longer leads anywhere.
        match kind {
            Kind::Combined | Kind::LevelRemoved | Kind::LevelTtl => {
                assert!(counts.parked >= 20, "{kind:?}: {measured}");
            }
            Kind::TimeoutRemoved => assert_eq!(counts.parked, 10, "{measured}"),
            _ => assert_eq!(counts.parked, 0, "{kind:?}: {measured}"),
        }
    }
}

/// Takes one message out of the level.
async fn stolen(wire: &Wire) -> Vec<u8> {
    let look = async || wire.take("changing.delay.10s").await;
    until("a message in the level", look, Option::is_some).await.unwrap().body
}

/// Publishes a body: straight into a queue, or with a routing key.
async fn put(wire: &Wire, exchange: &str, key: &str, body: &[u8]) {
    let properties = BasicProperties::default().with_delivery_mode(2);
    assert!(wire.publish(exchange, key, properties, body).await.is_ack());
}

/// Without this the test above may prove nothing.
#[apply(world_test)]
async fn a_message_that_is_taken_put_forward_or_copied_is_noticed() {
    let world = World::empty().await;
    let spoil = async {
        let look = async || world.management().observe().await.unwrap().objects.queues;
        until("the level", look, |queues| queues.contains_key("changing.delay.10s")).await;
        let wire = world.wire().await;
        drop(stolen(&wire).await);
        put(&wire, "", "changing.unpaid", &stolen(&wire).await).await;
        put(&wire, "", "changing.parked", &stolen(&wire).await).await;
        let copied = stolen(&wire).await;
        for body in [&copied[..], &copied, b"of somebody else"] {
            put(&wire, "changing.in", "10s.unpaid", body).await;
        }
    };
    let scenario = Scenario::new(Kind::TimeoutAdded, "changing", ["10s", "5s"]);
    let (measured, ()) = tokio::join!(measured(&world, vec![scenario]), spoil);
    let [(_, measured)] = &measured[..] else { panic!("one change") };
    let counts = measured.counts;
    let found = [counts.lost, counts.early, counts.duplicates, counts.parked, counts.misdirected];
    assert_eq!((found, counts.foreign), ([1; 5], 1), "{measured}");
}
