//! Messages that a queue itself delays. RabbitMQ 4.4 does this for the header `x-opt-delivery-time`. A policy of delayed retry does the
//! same on 4.3, with the same counters. Both end the queue if the time is too far away.

use lapin::{
    BasicProperties,
    options::{BasicGetOptions, BasicNackOptions},
    types::{AMQPValue, FieldTable},
};
use overdue::internals::config::WorkerSettings;
use serde_json::{Value, json};

use crate::support::{
    Run, Services, Wire, World, until,
    worker::{millis, settings},
    world::TOPOLOGY,
};

const DELIVERY_TIME: &str = "x-opt-delivery-time";
const LOT: &str = "orders.parked";
const LEVEL: &str = "orders.delay.30m";
/// Delays of a policy of delayed retry: a day, eleven years, and more than any timer.
const DAY_MS: u64 = 86_400_000;
const ELEVEN_YEARS_MS: u64 = 11 * 365 * DAY_MS;
/// A delivery time in the past: no broker delays that message.
const OVER_MS: i64 = 1_000;
const TOO_FAR_MS: u64 = 9_300_000_000_000_000;

impl World {
    /// A world whose `queue` delays one message for `for_ms`; `None` before 4.3.1, which has no such policy.
    async fn holding_back(queue: &str, for_ms: u64) -> Option<(Self, Wire)> {
        let world = Self::of(TOPOLOGY).await;
        if !world.can_hold_back().await {
            return None;
        }
        let wire = world.hold_back(queue, for_ms).await;
        Some((world, wire))
    }

    /// Publishes a message to `queue` that the queue delays for `for_ms`.
    pub(super) async fn hold_back(&self, queue: &str, for_ms: u64) -> Wire {
        let definition = json!({
            "delayed-retry-type": "all", "delayed-retry-min": for_ms, "delayed-retry-max": for_ms,
        });
        let pattern = format!("^{}$", queue.replace('.', "\\."));
        self.policy("policies", "hold", &pattern, definition).await;
        // The queue reports the policy once it applies.
        let retry = async || {
            let queue = self.call(reqwest::Method::GET, "queues", &[queue], json!(null)).await;
            queue["delayed_retry"].as_str().map(str::to_owned)
        };
        until("delayed retry", retry, |it| it.as_ref().is_some_and(|it| it.starts_with("all")))
            .await;
        let wire = self.wire().await;
        wire.publish_all("", queue, &["held back".to_owned()]).await;
        let got = wire.channel.basic_get(queue.into(), BasicGetOptions::default()).await;
        let requeue = BasicNackOptions { requeue: true, ..BasicNackOptions::default() };
        got.unwrap().unwrap().delivery.acker.nack(requeue).await.unwrap();
        wire
    }

    /// Whether the broker has delayed retry.
    pub(super) async fn can_hold_back(&self) -> bool {
        self.services.broker_version().await >= "4.3.1".parse().unwrap()
    }
}

/// The publisher's other headers are kept.
#[apply(world_test)]
async fn no_copy_of_a_worker_or_a_tool_has_the_header() {
    let (world, wire) = World::new().await.wired().await;
    let due = wire.listen("orders.dlx", "#").await;
    let worker = world.worker_with(WorkerSettings { hold: millis("100ms"), ..settings() });
    // The first is requeued until it is due, the second retried until it is parked.
    let early = world.orders("early", 1, 60_000).await;
    for body in [early[0].as_bytes(), b"nobody"] {
        wire.publish("orders.in", "100ms.unpaid", delivered_at(OVER_MS), body).await;
    }
    worker.until("put back twice, and retried", |c| c.put_back >= 2 && c.retried >= 3).await;
    wire.until_ready(LOT, 1).await;
    world.due_now().await;
    world.until_closed(1).await;
    worker.stop().await;
    let came = wire.take_all(&due).await;
    let with = came.iter().filter(|it| it.headers.contains_key(DELIVERY_TIME));
    assert_eq!(with.count(), 2, "as they were published: {came:#?}");
    assert!(came.len() >= 2 + 2 + 3, "{came:#?}");
    assert!(came.iter().all(|it| it.header("x-shop").as_deref() == Some("north")));

    let parked = wire.take(LOT).await.unwrap();
    assert_eq!((parked.text().as_str(), parked.headers.get(DELIVERY_TIME)), ("nobody", None));
    assert_eq!(parked.header("x-shop").as_deref(), Some("north"));
    // Published as the broker parks unroutable messages: with all headers.
    let late = world.orders("late", 1, -1_000).await;
    wire.publish("orders.park", "30m.unpaid", delivered_at(OVER_MS), late[0].as_bytes()).await;
    world.overdue(&["parked", "replay", "--yes"]).exits(0);
    let replayed = wire.take_many(&due, 1).await.remove(0);
    assert_eq!((replayed.text(), replayed.headers.get(DELIVERY_TIME)), (late[0].clone(), None));
    assert_eq!(replayed.header("x-shop").as_deref(), Some("north"));
    world.assert_invariants().await;
}

/// A message that waits for an exchange of the plugin arrives as published, without that header.
#[apply(world_test)]
async fn what_was_published_for_the_plugin_comes_out_without_the_header() {
    let compat = "[compat.x-delay]\nexchange = \"reminders\"\ntype = \"direct\"\n";
    let world = World::of(&format!("{TOPOLOGY}\n{compat}")).await;
    let worker = world.worker();
    let wire = world.wire().await;
    wire.queue("mails", &[]).await;
    wire.bind("mails", &world.topology.compat_due_exchange(), "welcome").await;
    let mut headers = delivered_at(OVER_MS).headers().clone().unwrap();
    // No level has this delay: the message goes through the worker.
    headers.insert("x-delay".into(), AMQPValue::LongInt(150));
    let properties = BasicProperties::default().with_headers(headers);
    wire.publish("reminders", "welcome", properties, b"1").await;
    let came = wire.take_many("mails", 1).await.remove(0);
    assert_eq!((came.text().as_str(), came.headers.get(DELIVERY_TIME)), ("1", None));
    assert_eq!(came.header("x-shop").as_deref(), Some("north"));
    assert!(came.headers.contains_key("x-delay"), "{came:?}");
    worker.stop().await;
}

#[apply(world_test)]
async fn verify_and_doctor_name_what_is_held_back_in_a_level_and_in_the_parking_lot() {
    for queue in [LEVEL, LOT] {
        let Some((world, _wire)) = World::holding_back(queue, DAY_MS).await else { return };
        let look = async || world.overdue(&["verify", "-o", "json"]).findings();
        let expected = [format!("warning held-back queue {queue}")];
        until("found", look, |found| *found == expected).await;
        let run = world.overdue(&["doctor"]);
        let line = format!("queue {queue}: it holds 1 message back, the last until 20");
        assert!(run.stdout.contains(&line), "{run}");
    }
}

#[apply(world_test)]
async fn a_message_that_is_years_away_is_an_error_before_it_is_the_next_one() {
    let Some((world, _wire)) = World::holding_back("orders.unpaid", ELEVEN_YEARS_MS).await else {
        return;
    };
    let look = async || world.overdue(&["verify", "-o", "json"]);
    let error = "error held-back-for-years queue orders.unpaid".to_owned();
    let run = until("found", look, |run| run.findings().contains(&error)).await;
    let purge = format!("rabbitmqctl purge_queue -p {} orders.unpaid", world.vhost);
    assert!(run.stdout.contains(&purge), "{run}");
    world.overdue(&["status"]).prints("orders.unpaid: it holds a message back until 20");
    world
        .call(reqwest::Method::DELETE, "queues", &["orders.unpaid", "contents"], json!(null))
        .await;
    let look = async || world.overdue(&["verify", "-o", "json"]).findings();
    until("purged", look, |found| !found.iter().any(|it| it.contains("held-back"))).await;
}

/// The queue's processes end at once; the broker's tables still show it as running, with a leader.
#[apply(world_test)]
async fn a_queue_that_such_a_message_has_ended_has_no_leader() {
    let Some((world, _wire)) = World::holding_back(LOT, TOO_FAR_MS).await else { return };
    let look = async || world.overdue(&["verify", "-o", "json"]);
    let error = format!("error no-leader queue {LOT}");
    // The broker restarts the process several times before.
    let ended = |run: &Run| run.findings().contains(&error) && run.stdout.contains("is noproc");
    until("ended", look, ended).await;
    let tables = async || world.call(reqwest::Method::GET, "queues", &[LOT], json!(null)).await;
    let lies = |it: &Value| it["state"] == "running" && it["leader"].is_string();
    until("said to be running", tables, lies).await;
    let run = world.overdue(&["doctor", "-o", "json"]);
    let checks = run.json()["checks"].clone();
    let replicas = checks.as_array().unwrap().iter().find(|it| it["rule"] == "replicas").unwrap();
    assert_eq!(replicas["severity"], "error", "{run}");
    assert_eq!(replicas["message"], format!("no leader: {LOT}"), "{run}");
}

/// The header on a broker that supports it: in a level, the message waits for the header and the TTL, and `verify` finds it. A requeued
/// notice has no such header.
#[apply(world_test)]
async fn a_notice_with_the_header_waits_in_its_level_for_both() {
    let Some(services) = Services::rabbitmq_44() else { return };
    let (world, wire) = World::with(services, TOPOLOGY).await.wired().await;
    let properties = delivered_at(now_ms() + i64::try_from(DAY_MS).unwrap());
    assert!(wire.publish("orders.in", "100ms.unpaid", properties, b"nobody").await.is_ack());
    let level = "orders.delay.100ms";
    let look = async || world.overdue(&["verify", "-o", "json"]).findings();
    let expected = [format!("warning held-back queue {level}")];
    until("found", look, |found| *found == expected).await;
    assert_eq!(wire.ready(level).await, 0);
    // A later message without such a time leaves first.
    world.publish("100ms", &world.orders("o", 1, 0).await).await;
    let worker = world.worker();
    world.until_closed(1).await;
    worker.stop().await;
    assert_eq!(world.count(level, "messages_delayed").await, Some(1));
}

/// Microseconds instead of milliseconds: `verify` reports the message while another one shields the queue, which still works.
#[apply(world_test)]
async fn a_delivery_time_that_is_too_far_away_is_named_while_another_one_shields_the_queue() {
    let Some(services) = Services::rabbitmq_44() else { return };
    let (world, wire) = World::with(services, TOPOLOGY).await.wired().await;
    for at_ms in [now_ms() + i64::try_from(DAY_MS).unwrap(), now_ms() * 1_000] {
        let properties = delivered_at(at_ms);
        assert!(wire.publish("", "orders.unpaid", properties, b"nobody").await.is_ack());
    }
    let error = "error held-back-for-years queue orders.unpaid".to_owned();
    let look = async || world.overdue(&["verify", "-o", "json"]);
    let run = until("found", look, |run| run.findings().contains(&error)).await;
    assert!(run.stdout.contains("an earlier one shields it until 20"), "{run}");
    // The queue accepts and delivers messages.
    let orders = world.orders("o", 1, 0).await;
    wire.publish_all("", "orders.unpaid", &orders).await;
    let worker = world.worker();
    world.until_closed(1).await;
    worker.stop().await;
    assert_eq!(world.count("orders.unpaid", "messages_delayed").await, Some(2));
}

fn delivered_at(ms: i64) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert(DELIVERY_TIME.into(), AMQPValue::LongLongInt(ms));
    headers.insert("x-shop".into(), AMQPValue::LongString("north".into()));
    BasicProperties::default().with_delivery_mode(2).with_headers(headers)
}

#[expect(clippy::disallowed_methods, reason = "the broker goes by the clock of this machine")]
fn now_ms() -> i64 {
    jiff::Timestamp::now().as_millisecond()
}
