//! Every kind of change under load, counting every message: none is lost, none is early.

use lapin::BasicProperties;
use overdue::{
    bench::change::{self, Size, kind::Kind, report::Report},
    shutdown::Stop,
};

use crate::support::{Wire, World, until};

const NAME: &str = "changing";
const MESSAGES: usize = 1_500;

async fn measured(world: &World, kind: Kind, level: &str) -> Report {
    let size = Size { messages: MESSAGES, levels: level.parse().unwrap() };
    change::run(&world.management(), NAME, &[kind], &size, &Stop::new(), |_| {}).await.unwrap()
}

/// Makes the change, and checks the account.
async fn change(kind: Kind, level: &str) {
    let world = World::empty().await;
    let report = measured(&world, kind, level).await;
    assert!(report.is_right(), "{report}");
    let tally = report.lines[0].tally;
    assert_eq!((tally.lost, tally.early, tally.astray, tally.foreign), (0, 0, 0, 0), "{report}");
    assert_eq!(tally.published, tally.distinct + tally.parked, "{report}");
    assert!(tally.received <= tally.distinct + tally.duplicates, "{report}");
    assert!(tally.waiting > 0 && tally.published > MESSAGES, "{report}");
    // Twenty are published as before when it no longer leads anywhere.
    match kind {
        Kind::Combined | Kind::LevelRemoved | Kind::LevelTtl => {
            assert!(tally.parked >= 20, "{report}");
        }
        Kind::TimeoutRemoved => assert_eq!(tally.parked, 10, "{report}"),
        _ => assert_eq!(tally.parked, 0, "{report}"),
    }
    let refused = (kind == Kind::TimeoutRemoved).then_some(true);
    assert_eq!(report.lines[0].refused_while_occupied, refused, "{report}");
    let objects = world.management().observe().await.unwrap().objects;
    assert_eq!(objects.queues.keys().collect::<Vec<_>>(), Vec::<&String>::new());
    let ours = objects.exchanges.keys().filter(|name| name.starts_with(NAME));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_levels_and_queue_type_at_once() {
    change(Kind::Combined, "3s").await;
}

/// Longer than an old count can hide what waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_level_removed() {
    change(Kind::LevelRemoved, "15s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_ttl() {
    change(Kind::LevelTtl, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn classic_to_quorum() {
    change(Kind::ClassicToQuorum, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_to_classic() {
    change(Kind::QuorumToClassic, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_delivery_limit() {
    change(Kind::DeliveryLimit, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_added() {
    change(Kind::TimeoutAdded, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_removed_after_it_drained() {
    change(Kind::TimeoutRemoved, "3s").await;
}

/// Takes one message out of the level.
async fn stolen(wire: &Wire) -> Vec<u8> {
    let level = format!("{NAME}.delay.10s");
    let look = async || wire.take(&level).await;
    until("a message in the level", look, Option::is_some).await.unwrap().body
}

/// Publishes a body: straight into a queue, or with a routing key.
async fn put(wire: &Wire, exchange: &str, key: &str, body: &[u8]) {
    let properties = BasicProperties::default().with_delivery_mode(2);
    assert!(wire.publish(exchange, key, properties, body).await.is_ack());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_message_that_is_taken_put_forward_or_copied_is_noticed() {
    let world = World::empty().await;
    let spoil = async {
        let look = async || world.management().observe().await.unwrap().objects.queues;
        let level = format!("{NAME}.delay.10s");
        until("the level", look, |queues| queues.contains_key(&level)).await;
        let wire = world.wire().await;
        let (unpaid, lot, entry) =
            ["unpaid", "parked", "in"].map(|of| format!("{NAME}.{of}")).into();
        drop(stolen(&wire).await);
        put(&wire, "", &unpaid, &stolen(&wire).await).await;
        put(&wire, "", &lot, &stolen(&wire).await).await;
        let copied = stolen(&wire).await;
        put(&wire, &entry, "10s.unpaid", &copied).await;
        put(&wire, &entry, "10s.unpaid", &copied).await;
        put(&wire, &entry, "10s.unpaid", b"of somebody else").await;
    };
    let (report, ()) = tokio::join!(measured(&world, Kind::TimeoutAdded, "10s"), spoil);
    let tally = report.lines[0].tally;
    let found = [tally.lost, tally.early, tally.duplicates, tally.parked, tally.astray];
    assert_eq!((found, tally.foreign), ([1; 5], 1), "{report}");
    assert!(!report.is_right());
}
