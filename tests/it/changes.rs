//! Every kind of change under load, counting every message: none is lost, none is early.

use lapin::BasicProperties;
use overdue::internals::{
    bench::change::{self, kind::ChangeKind, report::ChangeReport, size::ChangeSize},
    shutdown::Stop,
};

use crate::support::{Wire, World, until};

const NAME: &str = "changing";
const MESSAGES: usize = 1_500;

async fn measured(world: &World, kind: ChangeKind, level: &str) -> ChangeReport {
    let size = ChangeSize { messages: MESSAGES, levels: level.parse().unwrap() };
    change::run(&world.management(), NAME, &[kind], &size, &Stop::new(), |_| {}).await.unwrap()
}

/// Makes the change, and checks the account.
async fn change(kind: ChangeKind, level: &str) {
    let world = World::empty().await;
    let report = measured(&world, kind, level).await;
    assert!(report.is_right(), "{report}");
    let counts = report.lines[0].counts;
    assert_eq!(
        (counts.lost, counts.early, counts.misdirected, counts.foreign),
        (0, 0, 0, 0),
        "{report}"
    );
    assert_eq!(counts.published, counts.distinct + counts.parked, "{report}");
    assert!(counts.received <= counts.distinct + counts.duplicates, "{report}");
    assert!(counts.waiting > 0 && counts.published > MESSAGES, "{report}");
    // Twenty are published as before when it no longer leads anywhere.
    match kind {
        ChangeKind::Combined | ChangeKind::LevelRemoved | ChangeKind::LevelTtl => {
            assert!(counts.parked >= 20, "{report}");
        }
        ChangeKind::TimeoutRemoved => assert_eq!(counts.parked, 10, "{report}"),
        _ => assert_eq!(counts.parked, 0, "{report}"),
    }
    let refused = (kind == ChangeKind::TimeoutRemoved).then_some(true);
    assert_eq!(report.lines[0].refused_while_occupied, refused, "{report}");
    let objects = world.management().observe().await.unwrap().objects;
    assert_eq!(objects.queues.keys().collect::<Vec<_>>(), Vec::<&String>::new());
    let ours = objects.exchanges.keys().filter(|name| name.starts_with(NAME));
    assert_eq!(ours.collect::<Vec<_>>(), Vec::<&String>::new());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn after_levels_and_queue_type_at_once() {
    change(ChangeKind::Combined, "3s").await;
}

/// Longer than an old count can hide what waits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_level_removed() {
    change(ChangeKind::LevelRemoved, "15s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_ttl() {
    change(ChangeKind::LevelTtl, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn classic_to_quorum() {
    change(ChangeKind::ClassicToQuorum, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn quorum_to_classic() {
    change(ChangeKind::QuorumToClassic, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_delivery_limit() {
    change(ChangeKind::DeliveryLimit, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_added() {
    change(ChangeKind::TimeoutAdded, "3s").await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_timeout_removed_after_it_drained() {
    change(ChangeKind::TimeoutRemoved, "3s").await;
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
    let (report, ()) = tokio::join!(measured(&world, ChangeKind::TimeoutAdded, "10s"), spoil);
    let counts = report.lines[0].counts;
    let found = [counts.lost, counts.early, counts.duplicates, counts.parked, counts.misdirected];
    assert_eq!((found, counts.foreign), ([1; 5], 1), "{report}");
    assert!(!report.is_right());
}
