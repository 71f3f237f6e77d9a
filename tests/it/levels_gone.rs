//! Levels that the broker does not route to any more, under a worker whose topology file still has them.

use std::sync::Arc;

use overdue::{
    Delay,
    internals::{
        broker::Management,
        shutdown::Stop,
        store::{Store, orders::Effect},
        topology::Topology,
        worker::{self, Worker},
    },
};

use crate::support::{World, text, until, worker::settings, world::TOPOLOGY};

/// The topology of the tests without these levels.
fn without(levels: &[&str]) -> Topology {
    let text = levels
        .iter()
        .fold(TOPOLOGY.to_owned(), |text, level| text.replace(&format!("\"{level}\", "), ""));
    Topology::parse(&text).unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_early_notice_takes_the_best_level_that_is_there() {
    let world = World::new().await;
    let wire = world.wire().await;
    let mut process = world.started(|_| {}).await;
    world.apply(&without(&["2s"])).await;
    process.until_logged("the broker does not route to these levels").await;
    assert!(process.log().contains("2s.unpaid"), "{}", process.log());

    let along = wire.listen("orders.in", "#").await;
    let orders = world.orders("o", 20, 4_500).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    world.until_closed(20).await;
    world.parked(0).await;
    world.assert_invariants().await;
    while let Some(copy) = wire.take(&along).await {
        assert_eq!(copy.key, "1s.unpaid");
    }
    // It comes back, and is used again.
    world.apply(&world.topology).await;
    process.until_logged("the broker routes to these levels again").await;
    let orders = world.orders("again", 20, 4_500).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    assert_eq!(wire.take_many(&along, 1).await[0].key, "2s.unpaid");
    world.until_closed(40).await;
    world.parked(0).await;
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
}

/// What is due soon is held until then; what is not would be unacked for too long.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_any_level_a_short_rest_is_held_and_a_long_one_is_parked_with_the_reason() {
    let world = World::new().await;
    let wire = world.wire().await;
    let mut process = world.started(|_| {}).await;
    for (level, queue) in world.topology.delay_queues() {
        world.unbind("orders.in", &queue, &format!("{}.*", level.name())).await;
    }
    process.until_logged("the broker does not route to these levels").await;
    let soon = world.orders("soon", 20, 6_000).await;
    let late = world.orders("late", 1, 3_600_000).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &soon).await;
    world.until_closed(20).await;
    world.parked(0).await;
    let unknown = vec!["nobody".to_owned()];
    for (ids, reason) in [
        (&late, "it has to wait, and the broker routes to nothing"),
        (&unknown, "the database does not know this order; it has to wait, and the broker routes"),
    ] {
        wire.publish_all("orders.dlx", "100ms.unpaid", ids).await;
        let parked = world.parked(1).await;
        assert!(parked[0].reason().starts_with(reason), "{}", parked[0].reason());
    }
    world.apply(&world.topology).await;
    process.until_logged("the broker routes to these levels again").await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &late).await;
    let waits = async || wire.ready("orders.delay.30m").await;
    until("it waits in the longest level", waits, |ready| *ready == 1).await;
    world.assert_invariants().await;
}

/// Between two looks nobody can know. The next look counts what may have been parked meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn copies_for_a_level_that_vanishes_between_two_looks_are_counted_as_parked() {
    let world = World::new().await;
    let wire = world.wire().await;
    let worker = world.worker();
    let put = async |orders: &[String]| {
        let copied = || worker.counts().put_back + worker.counts().parked;
        let at_least = copied() + u64::try_from(orders.len()).unwrap();
        wire.publish_all("orders.dlx", "100ms.unpaid", orders).await;
        until("put somewhere", async || copied(), |copied| *copied >= at_least).await;
    };
    let mut in_lot = 0;
    for round in 0..20 {
        let probe = world.orders(&format!("probe{round}"), 1, 3_600_000).await;
        let orders = world.orders(&format!("r{round}"), 5, 3_600_000).await;
        let before = wire.ready("orders.delay.30m").await;
        let used = async || {
            put(&probe).await;
            wire.ready("orders.delay.30m").await
        };
        until("the worker uses the level", used, |waiting| *waiting > before).await;
        world.unbind("orders.in", "orders.delay.30m", "30m.*").await;
        put(&orders).await;
        in_lot = wire.ready("orders.parked").await;
        if in_lot > 0 {
            break;
        }
        world.bind("orders.in", "orders.delay.30m", "30m.*").await;
    }
    assert!(in_lot > 0, "each time the level was looked for before the notices came");
    let counted = async || (u64::from(wire.ready("orders.parked").await), worker.counts().parked);
    until("counted", counted, |(there, counted)| *there > 0 && counted >= there).await;
}

/// Without the management API the queues are asked for.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_management_api_a_level_whose_queue_is_gone_is_known_when_a_session_begins() {
    let world = World::new().await;
    let wire = world.wire().await;
    world.delete("queues", "orders.delay.2s").await;
    let worker = Arc::new(Worker::new(
        world.address(),
        None::<Management>,
        Store::new(&world.services.database_url(None), &world.schema, 8).unwrap(),
        world.topology.clone(),
        [("close".to_owned(), Effect::close())].into(),
        settings(),
    ));
    let stop = Stop::new();
    let (running, stopping) = (Arc::clone(&worker), stop.clone());
    let task = tokio::spawn(async move { worker::run(&running, &stopping).await });
    let orders = world.orders("o", 20, 4_500).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    world.until_closed(20).await;
    stop.request();
    task.await.unwrap().unwrap();
    world.parked(0).await;
    assert_eq!(worker.counters.read().parked, 0);
}

/// As a publisher asks before it publishes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_can_ask_which_routes_lead_to_a_level() {
    let world = World::new().await;
    let wire = world.wire().await;
    let management = world.management();
    let leads = async |level: &str| {
        let routes = management.level_routes(&world.topology).await.unwrap();
        routes.leads(&world.topology.route("unpaid", &Delay::Level(level.to_owned())).unwrap())
    };
    assert!(leads("2s").await);
    world.unbind("orders.in", "orders.delay.2s", "2s.*").await;
    assert!(!leads("2s").await && leads("1s").await);
    // Somebody who listens to everything is not a level: nothing would come due.
    wire.queue("audit", &[("x-queue-type", text("quorum"))]).await;
    world.bind("orders.in", "audit", "2s.unpaid").await;
    assert!(!leads("2s").await);
    world.apply(&world.topology).await;
    assert!(leads("2s").await);
}
