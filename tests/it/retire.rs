//! Retirement: levels and queue types change under load. No message is lost or early, and objects of others are untouched.

use std::sync::atomic::Ordering;

use overdue::internals::{
    broker::TopologyChange,
    plan::{Plan, Snapshot},
    topology::Topology,
};

use crate::support::{World, until};

/// Levels of three seconds and less, on classic queues.
const BEFORE: &str = r#"
name = "orders"

[delay]
levels = ["100ms", "1s", "3s"]

[queues]
type = "classic"

[[timeout]]
name = "unpaid"
after = "3s"

[[timeout]]
name = "unshipped"
after = "3s"
"#;

/// Another queue type, 3 s is gone, 2 s is new.
fn after() -> String {
    BEFORE.replace("classic", "quorum").replace("\"3s\"", "\"2s\"")
}

impl World {
    /// Writes another topology file, and uses it.
    fn change(&mut self, text: &str) {
        std::fs::write(self.topology_file(), text).unwrap();
        self.topology = Topology::parse(text).unwrap();
    }

    async fn plan(&self) -> (Plan, Snapshot) {
        TopologyChange::new(&self.management(), &self.topology).plan().await.unwrap()
    }

    /// Waits until the management API has counted the messages of a queue.
    async fn until_counted(&self, queue: &str, messages: u64) {
        let look = async || self.management().observe().await.unwrap().messages_in(queue);
        until(&format!("{messages} counted in {queue}"), look, |seen| *seen == Some(messages))
            .await;
    }
}

#[apply(world_test)]
async fn a_change_of_levels_and_queue_type_under_load_loses_nothing_and_closes_nothing_early() {
    const WAITING: usize = 2_000;
    let mut world = World::of(BEFORE).await;
    let mut process = world.started(|_| {}).await;
    world.publish_orders("3s", "waiting", WAITING, 3_000).await;

    let (publishing, stream) = world.streaming().await;
    world.change(&after());
    let applied = world.overdue_meanwhile(&["apply", "--yes"]).await.exits(0);
    assert!(applied.stdout.contains("+ queue     orders.unpaid.2"), "{applied}");
    let has = world.own_objects().await;
    assert!(
        has.queues.contains_key("orders.unpaid.2") && !has.queues.contains_key("orders.unpaid.3")
    );
    assert!(process.is_running());
    process.until_logged("the queues have changed").await;

    // The command stops waiting when counts are late, and leaves messages after the last count to the next command.
    let look = async || {
        let run = world.overdue_meanwhile(&["apply", "--wait", "--yes"]).await;
        (run.code, run.stdout)
    };
    let nothing = "no change: the broker has this topology";
    until("nothing drains", look, |(code, out)| *code == Some(0) && out.trim().ends_with(nothing))
        .await;
    // The new objects take messages for the same worker.
    publishing.store(false, Ordering::Relaxed);
    let streamed = stream.await.unwrap();
    assert!(streamed > 0, "somebody published meanwhile");
    world.until_closed(WAITING + streamed).await;
    assert_eq!(world.closed().await, i64::try_from(WAITING + streamed).unwrap());
    world.assert_invariants().await;

    let has = world.own_objects().await;
    let old: Vec<&String> =
        has.queues.values().filter(|q| q.kind == "classic").map(|q| &q.name).collect();
    assert!(old.is_empty(), "left behind: {old:?}");
    assert_eq!(has.queues.len(), world.topology.objects().queues.len());
    assert!(process.is_running());
    assert_eq!(process.logged("worker ready"), 1, "{}", process.log());
    assert_eq!(process.logged("session ended"), 0, "{}", process.log());
    let wire = world.wire().await;
    assert_eq!(wire.take("orders.parked.2").await, None, "parked");
}

#[apply(world_test)]
async fn the_plan_that_was_asked_for_is_carried_out_or_none() {
    let mut world = World::of(BEFORE).await;
    world.wire().await.publish_all("orders.in", "3s.unpaid", &["drains".to_owned()]).await;
    world.until_counted("orders.delay.3s", 1).await;
    world.change(&after());
    let planned = world.overdue(&["plan", "-o", "json"]);
    let asked = planned.json()["fingerprint"].as_str().unwrap().to_owned();
    world.until_counted("orders.delay.3s", 0).await;
    let before = world.own_objects().await;
    let refused = world.overdue(&["apply", "--plan", "91ce3f2a00aa", "--yes"]).exits(1);
    let said = format!("the plan is now {asked} and not 91ce3f2a00aa: 6 queues to create");
    assert!(refused.stderr.contains(&said), "{refused}");
    assert_eq!(world.own_objects().await, before);
    world.overdue(&["apply", "--plan", &asked, "--yes"]).exits(0);
    assert!(world.plan().await.0.is_empty());
}
