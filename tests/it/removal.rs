//! A timeout or a strategy is taken away while messages wait: nothing of them is parked, and nothing that drains is wrong.

use std::time::Duration;

use overdue::internals::{
    order::OrderId,
    topology::{Topology, route::Delay},
    wire::{DueNotice, Message},
};

use crate::support::{World, until};

/// Eleven seconds are two queues, the shortest way that is more than one.
const LADDER: &str = r#"
name = "orders"

[delay]
strategy = "ladder"
ladder = { max = "15s" }

[[timeout]]
name = "unpaid"
after = "11s"

[[timeout]]
name = "unshipped"
after = "11s"

[retry]
after = ["1s"]
"#;

fn without_unshipped() -> String {
    LADDER.replace("\n[[timeout]]\nname = \"unshipped\"\nafter = \"11s\"\n", "")
}

impl World {
    fn becomes(&mut self, text: &str) {
        std::fs::write(self.topology_file(), text).unwrap();
        self.topology = Topology::parse(text).unwrap();
    }

    async fn notify_after(&self, timeout: &str, delay_s: u64, ids: &[String]) {
        let publisher = self.publisher().await;
        for id in ids {
            let delay = Delay::Exactly(Duration::from_secs(delay_s));
            let route = self.topology.route(timeout, &delay).unwrap();
            let notice = DueNotice { order_id: OrderId::parse(id).unwrap(), due_at: None };
            publisher.publish(Message::notice(route, &notice)).await.unwrap();
        }
    }
}

/// Their messages come out before they are due, so the worker with the old file puts them back.
#[apply(world_test)]
async fn a_removed_timeout_keeps_its_queue_until_the_last_message_has_come_out_of_the_ladder() {
    let mut world = World::applied(LADDER).await;
    world.store.init(&world.schema, true).await.unwrap();
    let worker = world.started(|_| {}).await;
    for (timeout, delay_s) in [("unshipped", 11), ("unpaid", 10)] {
        let ids = world.orders(timeout, 5, 14_000).await;
        world.notify_after(timeout, delay_s, &ids).await;
    }
    world.becomes(&without_unshipped());
    let first = world.apply_meanwhile(&["apply", "--yes"]).await.exits(0);
    assert!(first.stdout.contains("~ queue     orders.unshipped  (leaves)"), "{first}");
    world.apply_meanwhile(&["verify"]).await.exits(0);
    let waited = world.apply_meanwhile(&["apply", "--yes", "--wait"]).await.exits(0);
    assert!(!world.own_objects().await.queues.contains_key("orders.unshipped"), "{waited}");
    world.until_closed(10).await;
    assert_eq!(world.wire().await.take("orders.parked").await, None);
    drop(worker);
}

/// The first apply waits for the queue of the removed timeout. Its file has no level 45m, so it would take that level away again.
#[apply(world_test)]
async fn a_waiting_apply_ends_when_another_apply_changes_the_topology() {
    const BEFORE: &str = "name = \"orders\"\ndelay.levels = [\"30m\"]\nretry.after = [\"30m\"]\n\
                          timeout = [{ name = \"unpaid\", after = \"30m\" }, { name = \"unshipped\", after = \"30m\" }]\n";
    let mut world = World::applied(BEFORE).await;
    let removed = BEFORE.replace(", { name = \"unshipped\", after = \"30m\" }", "");
    world.becomes(&removed);
    let mut waiting = world.spawn(world.command(&["apply", "--yes", "--wait"]));
    let marked = async || world.management().observe().await.unwrap().objects;
    until("marked", marked, |objects| objects.leaving("orders.unshipped").is_some()).await;
    world.becomes(&removed.replace("[\"30m\"]", "[\"30m\", \"45m\"]"));
    world.apply_meanwhile(&["apply", "--yes"]).await.exits(0);
    waiting.until_logged("another apply or program has changed the topology").await;
    assert!(world.own_objects().await.queues.contains_key("orders.delay.45m"), "{}", waiting.log());
}

/// The only command that gives messages up.
#[apply(world_test)]
async fn a_discarded_queue_goes_with_its_messages_and_no_other_does() {
    let mut world = World::applied(LADDER).await;
    let wire = world.wire().await;
    for timeout in ["unpaid", "unshipped"] {
        wire.publish_all("orders.dlx", &format!("now.{timeout}"), &[timeout.to_owned()]).await;
    }
    world.becomes(&without_unshipped());
    let counted = async || {
        let seen = world.management().observe().await.unwrap();
        seen.messages_in("orders.unshipped")
    };
    until("counted", counted, |count| *count == Some(1)).await;
    let discard = ["apply", "--yes", "--discard", "orders.unshipped"];
    world.overdue(&discard).exits(0).prints("WITH 1 message");
    assert_eq!(world.own_objects().await, world.topology.objects());
    assert_eq!(wire.take("orders.unpaid").await.unwrap().text(), "unpaid");
}

/// Removed, back in the file, and not applied: another removal must not count from then.
#[apply(world_test)]
async fn a_worker_takes_the_mark_from_the_queue_of_a_timeout_that_is_back() {
    let world = World::applied(LADDER).await;
    world.store.init(&world.schema, true).await.unwrap();
    world
        .wire()
        .await
        .bind("orders.unshipped", "orders.owned", "business/unshipped/leaving/1/0/1")
        .await;
    let _worker = world.started(|_| {}).await;
    assert_eq!(world.own_objects().await, world.topology.objects());
}
