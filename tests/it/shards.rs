//! Several queues for one timeout: workers share them, and their number changes to any other and back while messages wait in levels
//! and in the queues.

use std::{collections::BTreeSet, sync::atomic::Ordering};

use lapin::BasicProperties;
use overdue::internals::{
    permissions::{Right, Role},
    topology::Topology,
};
use serde_json::json;

use crate::support::{World, until};

fn text(shards: u16) -> String {
    let shards = if shards > 1 { format!(", shards = {shards}") } else { String::new() };
    format!(
        "name = \"orders\"\ndelay.levels = [\"100ms\", \"1s\"]\nqueues.type = \"classic\"\n\
         timeout = [{{ name = \"unpaid\", after = \"1s\"{shards} }}]\n"
    )
}

/// The rights of a worker that `overdue permissions` prints.
fn rights(shards: u16) -> [String; 3] {
    let roles = Role::all(&Topology::parse(&text(shards)).unwrap());
    let role = roles.iter().find(|role| role.name == "worker").unwrap();
    Right::ALL.map(|right| role.expression(right))
}

impl World {
    fn shard(&mut self, shards: u16) {
        std::fs::write(self.topology_file(), text(shards)).unwrap();
        self.topology = Topology::parse(&text(shards)).unwrap();
    }

    async fn business_queues(&self) -> BTreeSet<String> {
        let queues = self.own_objects().await.queues.into_keys();
        queues.filter(|queue| queue.starts_with("orders.unpaid")).collect()
    }

    /// Consumers of each business queue.
    async fn consumers(&self) -> Vec<u64> {
        let stats = self.management().queue_stats().await.unwrap();
        let business = stats.into_values().filter(|it| it.name.starts_with("orders.unpaid"));
        business.map(|it| it.consumers.unwrap_or(0)).collect()
    }
}

#[apply(world_test)]
async fn any_number_of_shards_becomes_any_other_under_load_and_nothing_is_lost() {
    const WAITING: usize = 400;
    let mut world = World::of(&text(1)).await;
    // The worker's own file has one queue all the time: the worker finds the others.
    let mut process = world.started(|_| {}).await;
    let (publishing, stream) = world.streaming().await;
    let mut closed = 0;
    for shards in [3, 2, 1] {
        world.publish_orders("1s", &format!("before-{shards}"), WAITING, 1_000).await;
        closed += WAITING;
        world.shard(shards);
        let rested = async || {
            let run = world.overdue_meanwhile(&["apply", "--wait", "--yes"]).await.exits(0);
            run.stdout
        };
        let nothing = "no change: the broker has this topology";
        until("nothing drains", rested, |out| out.trim().ends_with(nothing)).await;
        let wanted: BTreeSet<String> =
            world.topology.business_queues(&world.topology.timeouts[0]).into_iter().collect();
        assert_eq!(world.business_queues().await, wanted);
        let exchanges = world.own_objects().await.exchanges;
        assert_eq!(exchanges.contains_key("orders.unpaid.shards"), shards > 1);
    }
    publishing.store(false, Ordering::Relaxed);
    let streamed = stream.await.unwrap();
    world.until_closed(closed + streamed).await;
    world.assert_invariants().await;
    assert!(process.is_running());
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
    assert_eq!(world.wire().await.take("orders.parked").await, None, "parked");
}

#[apply(world_test)]
async fn each_of_two_workers_consumes_every_shard_and_a_message_without_an_id_comes_to_one() {
    let world = World::of(&text(4)).await;
    let workers = [world.worker(), world.worker()];
    until("both consume all", async || world.consumers().await, |seen| *seen == [2; 4]).await;
    world.publish_orders("100ms", "order", 100, 0).await;
    let [anonymous] = &world.orders("anonymous", 1, 0).await[..] else { panic!("one") };
    let body = json!({ "order_id": anonymous }).to_string();
    let properties = BasicProperties::default().with_delivery_mode(2);
    let wire = world.wire().await;
    assert!(wire.publish("orders.in", "100ms.unpaid", properties, body.as_bytes()).await.is_ack());
    world.until_closed(101).await;
    let mut received = 0;
    for worker in workers {
        let counts = worker.stop().await;
        received += counts.closed + counts.already_final;
    }
    // No message was routed to two queues.
    assert_eq!(received, 101);
    world.assert_invariants().await;
}

/// The worker's file is older or newer: the worker adds no queue, and consumes the queues in use.
#[apply(world_test)]
async fn a_worker_whose_file_has_another_number_adds_no_queue() {
    for (there, file) in [(1, 3), (3, 1)] {
        let world = World::of(&text(there)).await;
        let before = world.own_objects().await;
        std::fs::write(world.topology_file(), text(file)).unwrap();
        let mut worker = world.started(|_| {}).await;
        worker.until_logged("the broker has these queues in use").await;
        world.publish_orders("100ms", "order", 30, 0).await;
        world.until_closed(30).await;
        assert_eq!(worker.logged("session ended"), 0, "{}", worker.log());
        assert_eq!(world.own_objects().await, before);
        let all = |seen: &Vec<u64>| seen.len() == usize::from(there) && !seen.contains(&0);
        until("each is consumed", async || world.consumers().await, all).await;
    }
}

/// The printed expressions are sufficient, before the change and after it.
#[apply(world_test)]
async fn a_worker_with_the_least_rights_consumes_shards() {
    let world = World::of(&text(3)).await;
    let rights = rights(3);
    let [broker, management] =
        world.broker_user("management", Some(rights.each_ref().map(String::as_str))).await;
    let mut worker = world.start(|command| {
        command
            .arg("--no-declare")
            .env("OVERDUE_BROKER__URL", broker)
            .env("OVERDUE_BROKER__MANAGEMENT_URL", management);
    });
    worker.until_logged("worker ready").await;
    world.publish_orders("100ms", "order", 30, 0).await;
    world.until_closed(30).await;
    assert_eq!(worker.logged("session ended"), 0, "{}", worker.log());
}
