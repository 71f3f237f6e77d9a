//! Levels that the broker does not route to any more, under a worker whose topology file still has them.

use std::{sync::Arc, time::Duration};

use overdue::{
    Delay,
    internals::{broker::BrokerAddress, timing::Timing, topology::Topology},
};

use reqwest::Method;
use serde_json::json;

use super::{
    health::{until_not_ready, until_ready},
    parked::ends,
};
use crate::support::{Proxy, World, text, until, worker::settings, world::CLASSIC};

/// The topology of the tests without these levels.
fn without(levels: &[&str]) -> Topology {
    let text = levels
        .iter()
        .fold(CLASSIC.to_owned(), |text, level| text.replace(&format!("\"{level}\", "), ""));
    Topology::parse(&text).unwrap()
}

/// The topology of the tests with a timeout that uses this level.
fn using(level: &str) -> String {
    CLASSIC.replace("after = \"1s\"", &format!("after = \"{level}\""))
}

#[apply(world_test)]
async fn an_early_notice_takes_the_best_level_that_is_there() {
    let (world, wire) = World::new().await.wired().await;
    let mut process = world.started(|_| {}).await;
    world.apply(&without(&["2s"])).await;
    process.until_logged("the broker does not route to these levels").await;
    assert!(process.log().contains("2s.unpaid"), "{}", process.log());

    let orders = world.orders("o", 20, 4_500).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    world.until_closed(20).await;
    world.parked(0).await;
    world.assert_invariants().await;
    // It comes back, and is used again.
    world.apply(&world.topology).await;
    process.until_logged("the broker routes to these levels again").await;
    let along = wire.listen("orders.again", "2s.unpaid").await;
    // Between the levels of 2s and 30m, however slow the machine is.
    let orders = world.orders("again", 20, 60_000).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    wire.take_many(&along, 1).await;
    world.due_now().await;
    world.until_closed(40).await;
    world.parked(0).await;
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
}

/// What is due soon is held until then; what is not would be unacked for too long.
#[apply(world_test)]
async fn without_any_level_a_short_rest_is_held_and_a_long_one_is_parked_with_the_reason() {
    let (world, wire) = World::new().await.wired().await;
    let mut process = world.started(|_| {}).await;
    for (level, queue) in world.topology.delay_queues() {
        for exchange in ["orders.in", "orders.again"] {
            world.unbind(exchange, &queue, &format!("{}.*", level.name())).await;
        }
    }
    // A look in between finds a part of them.
    for (level, _) in world.topology.delay_queues() {
        process.until_logged(&format!("{}.unpaid", level.name())).await;
    }
    assert!(process.log().contains("the broker does not route to these levels"));
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
    wire.until_ready("orders.delay.30m", 1).await;
    world.assert_invariants().await;
}

/// RabbitMQ returns the copies, whatever the management API says.
#[apply(world_test)]
async fn notices_put_back_into_a_level_that_is_gone_wait_in_another_one() {
    let (world, wire) = World::new().await.wired().await;
    let management = Proxy::to(&world.services.management_socket()).await;
    let url = format!("http://admin:admin@127.0.0.1:{}", management.port());
    let started = world.started(|it| {
        it.env("OVERDUE_BROKER__MANAGEMENT_URL", url).env("OVERDUE_WORKER__SWEEP_EVERY", "1h");
    });
    let process = started.await;
    // Also a look that has begun.
    management.freeze_to_program();
    world.apply(&without(&["2s"])).await;
    let along = wire.listen("orders.again", "1s.unpaid").await;
    // Between the levels of 2s and 30m, however slow the machine is.
    let orders = world.orders("o", 20, 60_000).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    wire.take_many(&along, 20).await;
    world.due_now().await;
    world.until_closed(20).await;
    world.assert_invariants().await;
    world.until_empty("orders.unpaid").await;
    world.parked(0).await;
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
}

/// Consumers wait for no answer of it.
#[apply(world_test)]
async fn a_management_api_that_says_nothing_holds_up_no_order() {
    let world = World::new().await;
    let management = Proxy::to(&world.services.management_socket()).await;
    management.freeze_to_program();
    let url = format!("http://admin:admin@127.0.0.1:{}", management.port());
    let hour = Duration::from_hours(1); // data: no call is given up
    let timing = Timing { api_call: hour, ..Timing::tenth() };
    let address = BrokerAddress::parse(&world.broker_url(), Some(&url)).unwrap();
    let address = address.with_timing(Arc::new(timing));
    let worker = world.worker_at(address, &world.services.database_url(None), settings());
    world.publish_orders("100ms", "o", 20, 0).await;
    world.until_closed(20).await;
    assert!(management.attempts() > 0);
    worker.stop().await;
}

/// A worker that stops waits for the confirms: nothing comes twice.
#[apply(world_test)]
async fn a_worker_that_stops_gives_back_nothing_that_waits_in_a_level() {
    let (world, wire) = World::new().await.wired().await;
    let worker = world.worker();
    let orders = world.orders("o", 200, 3_600_000).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    let waiting = async || wire.ready("orders.delay.30m").await;
    until("some wait", waiting, |waiting| *waiting > 0).await;
    let counts = worker.stop().await;
    let look = async || (wire.ready("orders.delay.30m").await, wire.ready("orders.unpaid").await);
    // What is given back is back a moment later.
    let (there, left) = until("all are back", look, |(there, left)| there + left >= 200).await;
    assert_eq!((u64::from(there), there + left), (counts.put_back, 200));
}

#[apply(world_test)]
async fn without_the_management_api_nothing_is_parked_for_a_level_that_is_gone() {
    let (world, wire) = World::new().await.wired().await;
    world.delete("queues", "orders.delay.2s").await;
    let [broker, management] = world.broker_user("", Some([".*"; 3])).await;
    let urls = [("OVERDUE_BROKER__URL", broker), ("OVERDUE_BROKER__MANAGEMENT_URL", management)];
    let process = world.started(|it| _ = it.arg("--no-declare").envs(urls)).await;
    let orders = world.orders("o", 20, 4_500).await;
    wire.publish_all("orders.dlx", "100ms.unpaid", &orders).await;
    world.until_closed(20).await;
    process.stopped().await;
    world.parked(0).await;
}

/// As a publisher asks before it publishes.
#[apply(world_test)]
async fn a_publisher_can_ask_which_routes_lead_to_a_level() {
    let (world, wire) = World::new().await.wired().await;
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

    // It asks for the exchanges on the way only: those of others count as well.
    world.unbind("orders.in", "orders.delay.2s", "2s.*").await;
    for exchange in ["one", "another"] {
        world.exchange(exchange, "fanout", json!({})).await;
    }
    let key = json!({ "routing_key": "2s.*" });
    world.call(Method::POST, "bindings", &["e", "orders.in", "e", "one"], key.clone()).await;
    world.call(Method::POST, "bindings", &["e", "one", "e", "another"], key).await;
    assert!(!leads("2s").await);
    world.bind("another", "orders.delay.2s", "").await;
    assert!(leads("2s").await);
    // A circle ends as well.
    let none = json!({ "routing_key": "" });
    world.call(Method::POST, "bindings", &["e", "another", "e", "one"], none).await;
    assert!(leads("2s").await);

    // A refusal to show the routes is not taken for levels that are gone.
    let user = world.user("management").await;
    let refused = world.management_of(&user).level_routes(&world.topology).await;
    assert!(refused.is_err(), "{refused:?}");
}

async fn closes(world: &World) {
    world.publish_orders("100ms", "o", 5, 0).await;
    world.until_closed(5).await;
}

/// As on a machine that was away during the roll-out. It works with what is there, and is not ready.
#[apply(world_test)]
async fn a_worker_with_the_older_file_does_not_make_a_removed_level_again() {
    let world = World::of(&using("2s")).await;
    let newer = Topology::parse(&using("2s").replace("2s", "3s")).unwrap();
    world.apply(&newer).await;
    let before = world.own_objects().await;
    let (process, address) = world.listening(|_| {}).await;
    let log = process.log();
    assert!(log.contains("the broker has these queues in use"), "{log}");
    assert!(log.contains("orders.delay.3s"), "{log}");
    until_not_ready(address, "levels: the broker has no level for 2s.unpaid: ").await;
    assert_eq!(world.own_objects().await, before);
    closes(&world).await;
    // Its own file again, and it is ready without a restart.
    world.apply(&world.topology).await;
    until_ready(address).await;
}

/// A new file that nobody has applied. Who looks at it sees the same: `apply` is missing.
#[apply(world_test)]
async fn a_worker_with_a_newer_file_is_ready_when_it_was_applied() {
    let world = World::of(&using("2s")).await;
    let newer = using("2s").replace("2s", "3s");
    std::fs::write(world.topology_file(), &newer).unwrap();
    let (mut process, address) = world.listening(|_| {}).await;
    let page = until_not_ready(address, "levels: the broker has no level for 3s.unpaid: ").await;
    let reason = "levels     the broker has no level for 3s.unpaid: messages that are published there are parked. It has 2s, which the topology \
                  file of this worker lacks: run `overdue apply` if that file is the newer one, otherwise start the worker with \
                  the one that was applied\n";
    assert!(page.body.ends_with(reason), "{}", page.body);
    assert!(page.body.contains("\nconsuming  ok\n"), "{}", page.body);
    let status = world.overdue(&["status"]).prints("orders.delay.3s");
    assert!(status.stdout.contains("do: overdue apply"), "{status}");
    closes(&world).await;
    ends(&world, 0, &["apply", "--yes"]);
    until_ready(address).await;
    process.until_logged("the broker routes to these levels again").await;
}

/// What declares nothing may find as little.
#[apply(world_test)]
async fn a_worker_that_declares_nothing_is_ready_when_the_levels_of_its_timeouts_are_there() {
    let world = World::of(&using("2s")).await;
    let added = using("3s").replace("\"2s\"", "\"2s\", \"3s\"");
    std::fs::write(world.topology_file(), &added).unwrap();
    let (_process, address) = world.listening(|it| _ = it.arg("--no-declare")).await;
    let page = until_not_ready(address, "levels: the broker has no level for 3s.unpaid: ").await;
    assert!(page.first().ends_with("are parked; run `overdue apply`"), "{}", page.body);
    world.apply(&Topology::parse(&added).unwrap()).await;
    until_ready(address).await;
}
