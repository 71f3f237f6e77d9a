//! `overdue rebuild` that is stopped, that loses its broker or its database, and that runs twice.

use std::process::Command;

use lapin::{options::QueueDeclareOptions, types::FieldTable};

use crate::support::{Proxy, Services, WorkerProcess, World, until};

use super::rebuild::{LAST_LEVEL, far, rebuild_again, set, taken};

/// A rebuild that ends in its middle.
struct Broken {
    world: World,
    orders: Vec<String>,
    process: WorkerProcess,
}

const ORDERS: usize = 6_000;
/// Slow enough to leave some seconds after the check that it is half way.
const RATE: &str = "1000";

/// Starts a rebuild, and waits until it has published more than a page and less than everything.
async fn half_way(change: impl FnOnce(&World, &mut Command)) -> Broken {
    let world = World::new().await;
    let orders = far(&world, "o", ORDERS).await;
    let mut command = world.command(&["rebuild", "--yes", "--rate", RATE]);
    change(&world, &mut command);
    let process = world.spawn(command);
    let wire = world.wire().await;
    until("a part is published", async || wire.ready(LAST_LEVEL).await, |n| *n > 2_100).await;
    Broken { world, orders, process }
}

impl Broken {
    /// The rebuild ends with `code` and prints `what`; run again, it publishes a notice of each order.
    async fn begins_again(mut self, code: i32, what: &str) {
        let ended = self.process.ended().await;
        let log = self.process.log();
        assert_eq!(ended.code(), Some(code), "{log}");
        assert!(log.contains(what) && log.contains("confirmed; run it again"), "{log}");
        rebuild_again(|| self.world.overdue(&["rebuild", "--yes"])).await.exits(0);
        let (found, messages) = taken(&self.world, LAST_LEVEL).await;
        assert_eq!(found, set(self.orders));
        assert!(messages > ORDERS, "{messages}");
    }
}

#[apply(world_test)]
async fn ctrl_c_ends_it_and_the_next_one_begins_again() {
    let broken = half_way(|_, _| {}).await;
    broken.process.signal("INT");
    broken.begins_again(1, "error: stopped").await;
}

#[apply(world_test)]
async fn a_broker_that_dies_in_the_middle_ends_it_and_the_next_one_begins_again() {
    let proxy = Proxy::to(&Services::main().broker_socket()).await;
    let broken = half_way(|world, command| {
        let url = world.services.broker_url(&world.vhost, Some(proxy.port()));
        command.env("OVERDUE_BROKER__URL", url);
    })
    .await;
    proxy.refuse();
    broken.begins_again(69, "are confirmed").await;
}

#[apply(world_test)]
async fn a_database_that_dies_in_the_middle_ends_it_and_the_next_one_begins_again() {
    let proxy = Proxy::to(&Services::main().database_socket()).await;
    let broken = half_way(|world, command| {
        command.env("OVERDUE_DATABASE__URL", world.services.database_url(Some(proxy.port())));
    })
    .await;
    proxy.refuse();
    broken.begins_again(69, "PostgreSQL").await;
}

#[apply(world_test)]
async fn two_at_once_and_the_second_says_so() {
    let world = World::new().await;
    far(&world, "o", 2).await;
    let wire = world.wire().await;
    let options = QueueDeclareOptions { exclusive: true, ..QueueDeclareOptions::default() };
    let none = FieldTable::default();
    wire.channel.queue_declare("orders.rebuild.lock".into(), options, none).await.unwrap();
    insta::assert_snapshot!("two_at_once", world.shown(&world.overdue(&["rebuild", "--yes"])));
    assert_eq!(wire.ready(LAST_LEVEL).await, 0);
}
