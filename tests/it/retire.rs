//! Retirement: levels and queue types change under load, and nothing is lost, early or touched that is not ours.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use lapin::{BasicProperties, options::ExchangeDeleteOptions, types::AMQPValue};
use overdue::internals::{
    broker::{ChangeError, ChangeEvent, TopologyChange, apply::StepResult},
    objects::Objects,
    plan::{Change, Plan, Snapshot},
    topology::Topology,
};
use serde_json::json;

use tokio::{runtime::Handle, task};

use crate::support::{Run, World, process, until};

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

/// Without the second timeout.
fn without_unshipped() -> String {
    BEFORE.replace("\n[[timeout]]\nname = \"unshipped\"\nafter = \"3s\"\n", "")
}

impl World {
    /// Writes another topology file, and means it from now on.
    fn change(&mut self, text: &str) {
        std::fs::write(self.topology_file(), text).unwrap();
        self.topology = Topology::parse(text).unwrap();
    }

    async fn plan(&self) -> (Plan, Snapshot) {
        TopologyChange::new(&self.management(), &self.topology).plan().await.unwrap()
    }

    /// Waits until the management API has counted what is in a queue.
    async fn until_counted(&self, queue: &str, messages: u64) {
        let look = async || self.management().observe().await.unwrap().messages_in(queue);
        until(&format!("{messages} counted in {queue}"), look, |seen| *seen == Some(messages))
            .await;
    }

    /// `overdue` on a thread of its own, while this test goes on.
    async fn overdue_meanwhile(&self, arguments: &'static [&'static str]) -> Run {
        let command = self.command(arguments);
        tokio::task::spawn_blocking(move || process::finish(command, None)).await.unwrap()
    }
}

fn quiet() -> BasicProperties {
    BasicProperties::default().with_delivery_mode(2)
}

#[apply(world_test)]
async fn a_change_of_levels_and_queue_type_under_load_loses_nothing_and_closes_nothing_early() {
    const WAITING: usize = 2_000;
    let mut world = World::of(BEFORE).await;
    let mut process = world.started(|_| {}).await;
    let waiting = world.orders("waiting", WAITING, 3_000).await;
    world.publish("3s", &waiting).await;

    let publishing = Arc::new(AtomicBool::new(true));
    let publisher = world.publisher().await;
    let store = world.store.clone();
    let unpaid = world.topology.timeouts[0].name.clone();
    let notice = world.notice("1s", "template");
    let go_on = Arc::clone(&publishing);
    let stream = tokio::spawn(async move {
        const ORDER: &str = "INSERT INTO orders (id, category, due_at) \
                             VALUES ($1, 'physical', now() + interval '1 second')";
        let client = store.client().await.unwrap();
        let mut count = 0_usize;
        while go_on.load(Ordering::Relaxed) {
            let id = format!("{unpaid}-{count}");
            client.execute(ORDER, &[&id]).await.unwrap();
            let mut message = notice.clone();
            message.message_id.clone_from(&id);
            message.body = json!({ "order_id": id }).to_string().into_bytes();
            publisher.publish(message).await.unwrap();
            count += 1;
        }
        count
    });

    world.change(&after());
    let applied = world.overdue_meanwhile(&["apply", "--yes"]).await;
    assert_eq!(applied.code, Some(0), "{applied}");
    assert!(applied.stdout.contains("+ queue     orders.unpaid.2"), "{applied}");
    let has = world.own_objects().await;
    assert!(
        has.queues.contains_key("orders.unpaid.2") && !has.queues.contains_key("orders.unpaid.3")
    );
    assert!(process.is_running());
    process.until_logged("the queues have changed").await;

    // It gives up where counts come late, and what came between the last count and a deletion is left to another one.
    let look = async || {
        let run = world.overdue_meanwhile(&["apply", "--wait", "--yes"]).await;
        (run.code, run.stdout)
    };
    let nothing = "no change: the broker has this topology";
    until("nothing drains", look, |(code, out)| *code == Some(0) && out.trim().ends_with(nothing))
        .await;
    // Published into what is there now, seen by the same worker.
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
async fn a_saved_plan_is_carried_out_as_it_is_or_refused_if_another_one_is_due() {
    let mut world = World::of(BEFORE).await;
    world.until_all_counted().await;
    world.change(&after());
    for name in ["one.json", "two.json"] {
        let planned = world.overdue(&["plan", "--save", name]);
        assert_eq!(planned.code, Some(0), "{planned}");
    }
    // What is not ours may come and go, and so may messages.
    let wire = world.wire().await;
    wire.queue("theirs", &[]).await;
    wire.bind("theirs", "orders.events", "#").await;
    let shown = world.overdue(&["apply", "one.json"]);
    assert_eq!(shown.code, Some(64), "it would be carried out: {shown}");
    let events =
        wire.channel.exchange_delete("orders.events".into(), ExchangeDeleteOptions::default());
    events.await.unwrap();
    let before = world.own_objects().await;
    let refused = world.overdue(&["apply", "one.json", "--yes"]);
    assert_eq!(refused.code, Some(1), "{refused}");
    let said = "is `+ exchange orders.events (topic)`, and in the saved one it is `+ queue";
    assert!(refused.stderr.contains(said), "{refused}");
    assert_eq!(world.own_objects().await, before);

    world.exchange("orders.events", "topic", json!({})).await;
    let applied = world.overdue(&["apply", "two.json", "--yes"]);
    assert_eq!(applied.code, Some(0), "{applied}");
    assert!(world.plan().await.0.is_empty());
    let again = world.overdue(&["apply", "two.json", "--yes"]);
    assert_eq!(again.code, Some(1), "{again}");
}

#[apply(world_test)]
async fn a_removed_timeout_with_messages_is_refused_with_their_count_and_can_be_discarded() {
    let mut world = World::of(BEFORE).await;
    let wire = world.wire().await;
    let bodies = ["a", "b", "c"].map(str::to_owned);
    wire.publish_all("orders.dlx", "3s.unshipped", &bodies).await;
    world.until_counted("orders.unshipped", 3).await;
    world.until_all_counted().await;
    world.change(&without_unshipped());
    let before = world.own_objects().await;
    for arguments in [&["apply", "--yes"][..], &["apply", "--yes", "--discard", "orders.other"]] {
        let refused = world.overdue(arguments);
        assert_eq!(refused.code, Some(1), "{refused}");
        let said = "orders.unshipped is no longer in the topology and holds 3 messages";
        assert!(refused.stdout.contains(said), "{refused}");
        assert_eq!(world.own_objects().await, before);
    }
    let lost = world.overdue(&["apply", "--yes", "--discard", "orders.unshipped"]);
    assert_eq!(lost.code, Some(0), "{lost}");
    assert!(lost.stdout.contains("3 messages are LOST"), "{lost}");
    assert_eq!(world.own_objects().await, world.topology.objects());
}

/// Through the default exchange nobody can be stopped from publishing: the count decides.
#[apply(world_test)]
async fn a_queue_that_gets_a_message_after_the_plan_is_left_for_later() {
    let mut world = World::of(BEFORE).await;
    world.until_all_counted().await;
    world.change(&without_unshipped());
    let (plan, _) = world.plan().await;
    let delete = Change::DeleteQueue { queue: "orders.unshipped".to_owned(), lost: 0 };
    assert!(plan.steps.iter().any(|step| step.change == delete), "{plan}");
    let wire = world.wire().await;
    let mut left = Vec::new();
    let management = world.management();
    let on_event = |event: ChangeEvent<'_>| match event {
        // After the last plan, and before the deletion looks.
        ChangeEvent::Step(step, StepResult::Done) if matches!(step.change, Change::Unbind(_)) => {
            let publishing = wire.publish("", "orders.unshipped", quiet(), b"late");
            let publishing = || Handle::current().block_on(publishing);
            assert!(task::block_in_place(publishing).is_ack());
        }
        ChangeEvent::Step(step, StepResult::NotEmpty) => left.push(step.change.clone()),
        _ => {}
    };
    let change = TopologyChange::new(&management, &world.topology);
    change.make::<ChangeError>(|_| Ok(plan), on_event).await.unwrap();
    assert_eq!(left, [delete]);
    // It waits for somebody, and nothing else waits for it: not another change, not `--wait`.
    world.until_counted("orders.unshipped", 1).await;
    let planned = world.overdue(&["plan", "--check"]);
    assert_eq!(planned.code, Some(0), "{planned}");
    let said = "orders.unshipped  1 message that no worker with this topology consumes";
    assert!(planned.stdout.contains(said), "{planned}");
    let waited = world.overdue_with(&["apply", "--wait", "--yes"], &[process::LATE_COUNTS]);
    assert_eq!(waited.code, Some(0), "{waited}");
    assert!(waited.stdout.contains("stays: ~ queue     orders.unshipped  1 message"), "{waited}");
    assert_eq!(wire.ready("orders.unshipped").await, 1);
    assert_eq!(wire.take("orders.unshipped").await.unwrap().text(), "late");
    world.until_counted("orders.unshipped", 0).await;
    let applied = world.overdue(&["apply", "--yes"]);
    assert_eq!(applied.code, Some(0), "{applied}");
    assert_eq!(world.own_objects().await, world.topology.objects());
}

#[apply(world_test)]
async fn objects_of_others_are_untouched_by_a_retirement() {
    let mut world = World::of(BEFORE).await;
    let wire = world.wire().await;
    let theirs = [
        "invoices",
        "orders.audit",
        "orders.delay.7s",
        "orders.delay.3s.audit",
        "orders.eu.unpaid",
    ];
    for name in theirs {
        let ttl = [("x-message-ttl", AMQPValue::LongInt(7_000_000))];
        wire.queue(name, &ttl).await;
        wire.bind(name, "orders.events", "#").await;
        wire.bind(name, "orders.dlx", "#.theirs").await;
        assert!(wire.publish("", name, quiet(), name.as_bytes()).await.is_ack());
    }
    world.until_all_counted().await;
    let before = world.own_objects().await;
    world.change(&after());
    let applied = world.overdue_with(&["apply", "--yes", "--wait"], &[process::LATE_COUNTS]);
    assert_eq!(applied.code, Some(0), "{applied}");
    let has = world.own_objects().await;
    for name in theirs {
        assert!(!applied.stdout.contains(&format!(" {name} ")), "{applied}");
        assert_eq!(has.queues.get(name), before.queues.get(name));
        let bindings = |objects: &Objects| -> Vec<_> {
            objects.bindings.iter().filter(|b| b.destination == name).cloned().collect()
        };
        assert_eq!(bindings(&has), bindings(&before));
        assert_eq!(wire.take(name).await.unwrap().text(), name);
    }
    assert_eq!(has.queues.len(), theirs.len() + world.topology.objects().queues.len());
}
