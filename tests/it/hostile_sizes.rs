//! Bodies far larger than a due notice: the worker keeps them out of memory, and none is lost.

use std::collections::{BTreeMap, BTreeSet};

use lapin::{
    BasicProperties,
    types::{AMQPValue, FieldTable},
};
use overdue::internals::{
    broker::large_bodies::MAX_PASSED_BYTES, config::WorkerSettings, worker::kept_bytes::BOUND,
};

use crate::support::{
    World, text, until,
    worker::{millis, settings},
    world::TOPOLOGY,
};

const MIB: usize = 1024 * 1024;
const LARGE: usize = 28;
const BYTES: usize = 8 * MIB;

fn with_header(name: &str, value: &str) -> BasicProperties {
    let mut headers = FieldTable::default();
    headers.insert(name.into(), text(value));
    BasicProperties::default().with_headers(headers)
}

/// The peak memory of a process, in bytes.
fn peak(process: u32) -> usize {
    let status = std::fs::read_to_string(format!("/proc/{process}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    let kib: usize = line.trim().trim_end_matches(" kB").parse().unwrap();
    kib * 1024
}

/// The messages are in the queue before the worker starts, so that the prefetch count admits all of them.
#[apply(world_test)]
async fn large_bodies_are_parked_untouched_and_never_in_memory() {
    let (world, wire) = World::new().await.wired().await;
    let orders = world.orders("o", 500, 0).await;
    let good: Vec<&[String]> = orders.chunks(orders.len().div_ceil(LARGE)).collect();
    for n in 0..LARGE {
        let body = vec![u8::try_from(n).unwrap(); BYTES];
        let properties = with_header("whose", "somebody's")
            .with_message_id(format!("large-{n}").as_str().into())
            .with_content_type("image/png".into())
            .with_delivery_mode(2);
        assert!(wire.publish("orders.dlx", "30m.unpaid", properties, &body).await.is_ack());
        wire.publish_all("orders.dlx", "30m.unpaid", good.get(n).unwrap_or(&&[][..])).await;
    }
    let process = world.started(|_| {}).await;
    world.until_closed(orders.len()).await;
    let mut parked = Vec::new();
    while parked.len() < LARGE {
        for message in wire.take_many("orders.parked", 1).await {
            assert_eq!(message.body.len(), BYTES);
            assert!(message.body.iter().all(|byte| *byte == message.body[0]));
            assert_eq!(message.message_id, Some(format!("large-{}", message.body[0])));
            assert_eq!(message.content_type.as_deref(), Some("image/png"));
            assert_eq!(message.header("whose").as_deref(), Some("somebody's"));
            assert_eq!(message.key, "30m.unpaid");
            parked.push(message.body[0]);
        }
    }
    parked.sort_unstable();
    assert!(parked.iter().copied().eq(0..u8::try_from(LARGE).unwrap()), "{parked:?}");
    let peak = peak(process.id());
    assert!(
        peak < LARGE * BYTES / 2,
        "{} MiB for {} MiB of bodies",
        peak / MIB,
        LARGE * BYTES / MIB
    );
    let log = process.log();
    assert!(log.contains(&format!("the body has {BYTES} bytes, more than 65536")), "{log}");
    assert!(!log.contains("session ended"), "{log}");
    world.parked(0).await;
    world.assert_invariants().await;
}

/// The worker passes on messages of a taken-over exchange with their bodies: large ones one by one, larger ones not at all,
/// and all others in between.
#[apply(world_test)]
async fn large_bodies_for_a_taken_over_exchange_kill_no_worker() {
    const PASSED: [usize; 4] = [0, 60_000, 300_000, MAX_PASSED_BYTES];
    let compat = "[compat.x-delay]\nexchange = \"reminders\"\n";
    let (world, wire) = World::of(&format!("{TOPOLOGY}\n{compat}")).await.wired().await;
    wire.queue("mails", &[]).await;
    wire.bind("mails", &world.topology.compat_due_exchange(), "welcome").await;
    let publish = async |kind: &str, size: usize, n: usize| {
        let mut headers = FieldTable::default();
        headers.insert("x-delay".into(), AMQPValue::LongInt(1));
        headers.insert("whose".into(), text("somebody's"));
        let id = format!("{kind}-{n}");
        let properties =
            BasicProperties::default().with_headers(headers).with_message_id(id.into());
        let body = vec![u8::try_from(n).unwrap(); size];
        assert!(wire.publish("reminders", "welcome", properties, &body).await.is_ack());
    };
    for n in 0..LARGE {
        publish("small", PASSED[n % 2], n).await;
        publish("large", BYTES, n).await;
        publish("passed", PASSED[2 + n % 2], n).await;
    }
    let process = world.started(|_| {}).await;
    let mut passed = BTreeMap::new();
    while passed.len() < 2 * LARGE {
        for message in wire.take_many("mails", 1).await {
            assert!(message.body.iter().all(|byte| *byte == message.body[0]));
            assert_eq!(message.header("whose").as_deref(), Some("somebody's"));
            let id = message.message_id.unwrap();
            assert_eq!(message.key, "welcome", "{id}");
            passed.insert(id, message.body.len());
        }
    }
    for n in 0..LARGE {
        assert_eq!(passed[&format!("small-{n}")], PASSED[n % 2]);
        assert_eq!(passed[&format!("passed-{n}")], PASSED[2 + n % 2]);
    }
    let mut parked = BTreeSet::new();
    while parked.len() < LARGE {
        for message in wire.take_many("orders.parked", 1).await {
            assert_eq!(message.body.len(), BYTES);
            assert_eq!(message.header("whose").as_deref(), Some("somebody's"));
            parked.insert(message.message_id.unwrap());
        }
    }
    assert!(parked.iter().all(|id| id.starts_with("large-")), "{parked:?}");
    // The worker copies the passed bodies; the large bodies alone exceed this limit.
    let peak = peak(process.id());
    assert!(peak < LARGE * BYTES * 3 / 4, "{} MiB", peak / MIB);
    let log = process.log();
    assert!(
        log.contains(&format!("body or headers have {BYTES} bytes, more than 1048576")),
        "{log}"
    );
    assert!(!log.contains("session ended"), "{log}");
    world.until_empty("orders.compat").await;
}

/// Headers of many small values, which take far more memory than bytes on the wire. A due notice is read without them;
/// a message of a taken-over exchange is parked unchanged.
#[apply(world_test)]
async fn large_headers_kill_no_worker() {
    const VALUES: usize = 100_000;
    const MESSAGES: usize = 60;
    let compat = "[compat.x-delay]\nexchange = \"reminders\"\n";
    let (world, wire) = World::of(&format!("{TOPOLOGY}\n{compat}")).await.wired().await;
    let values = vec![AMQPValue::Void; VALUES];
    let mut headers = FieldTable::default();
    headers.insert("x-delay".into(), AMQPValue::LongInt(1));
    headers.insert("values".into(), AMQPValue::FieldArray(values.into()));
    let properties = BasicProperties::default().with_headers(headers).with_delivery_mode(2);
    let orders = world.orders("o", MESSAGES, 0).await;
    for order in &orders {
        for (exchange, key) in [("reminders", "welcome"), ("orders.dlx", "30m.unpaid")] {
            let published = wire.publish(exchange, key, properties.clone(), order.as_bytes());
            assert!(published.await.is_ack());
        }
    }
    let process = world.started(|_| {}).await;
    world.until_closed(orders.len()).await;
    let all = u32::try_from(MESSAGES).unwrap();
    wire.until_ready("orders.parked", all).await;
    let peak = peak(process.id());
    let read = VALUES * MESSAGES * size_of::<AMQPValue>();
    assert!(peak < read / 2, "{} MiB for {} MiB of headers", peak / MIB, read / MIB);
    assert!(!process.log().contains("session ended"), "{}", process.log());
    world.until_empty("orders.compat").await;
    world.assert_invariants().await;
}

/// A message whose header claims an omitted body, and that has no body at all.
#[apply(world_test)]
async fn a_forged_size_does_not_keep_a_worker_for_a_taken_over_exchange_busy() {
    let compat = "[compat.x-delay]\nexchange = \"reminders\"\n";
    let (world, wire) = World::of(&format!("{TOPOLOGY}\n{compat}")).await.wired().await;
    wire.queue("mails", &[]).await;
    wire.bind("mails", &world.topology.compat_due_exchange(), "welcome").await;
    let worker = world.worker();
    for size in ["70000", "1", "-1", "none"] {
        wire.publish("reminders", "welcome", with_header("x-body-left-out", size), b"").await;
        let mails = wire.take_many("mails", 1).await;
        assert_eq!(mails[0].header("x-body-left-out").as_deref(), Some(size));
    }
    world.until_empty("orders.compat").await;
    worker.stop().await;
}

/// The notices are just small enough to be read, and their orders are not due. Notices above the bound wait in a level instead of
/// the worker's memory, and due orders are closed.
#[apply(world_test)]
async fn what_waits_in_memory_is_bounded_in_bytes() {
    const NOTICE: usize = 64_000;
    let world = World::new().await;
    let early = world.orders("early", 3 * BOUND / 4 / NOTICE, 3_600_000).await;
    // Without stock: an order that waits for a stock row would count as held for a moment.
    let due = world.orders_without_stock("due", 100).await;
    let wire = world.wire().await;
    let padding = "x".repeat(NOTICE);
    let large = |id| serde_json::json!({ "order_id": id, "padding": &padding }).to_string();
    for ids in early.chunks(100) {
        let bodies: Vec<String> = ids.iter().map(large).collect();
        wire.publish_all("orders.dlx", "1s.unpaid", &bodies).await;
    }
    wire.publish_all("orders.dlx", "1s.unpaid", &due).await;
    let worker = world.worker_with(WorkerSettings { hold: millis("2h"), ..settings() });
    world.until_closed(due.len()).await;
    let waiting = async || worker.counts();
    let all = u64::try_from(early.len()).unwrap();
    let counts = until("all wait", waiting, |counts| counts.held + counts.put_back == all).await;
    assert!(counts.held * 64_000 <= BOUND as u64 / 2, "{counts:?}");
    // The orders are enough for a burst, which may close them ahead of their messages.
    let counts = worker.stop().await;
    assert_eq!((counts.closed + counts.burst + counts.swept, counts.parked), (100, 0));
    world.assert_invariants().await;
}

/// A message that only claims to be large is read like any other.
#[apply(world_test)]
async fn a_forged_size_is_not_believed() {
    let (world, wire) = World::new().await.wired().await;
    let orders = world.orders("o", 1, 0).await;
    let worker = world.worker();
    let forged = with_header("x-body-left-out", "9999999");
    wire.publish("orders.dlx", "30m.unpaid", forged, orders[0].as_bytes()).await;
    world.until_closed(1).await;
    assert_eq!(worker.stop().await.parked, 0);
}
