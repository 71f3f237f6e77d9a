//! Dead letters in two readings, and what holds them, made up.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use overdue::internals::{
    diagnostic::Severity,
    objects::{Argument, route},
    plan::{QueueStats, Snapshot},
    verify::{blockers, not_known, stuck, suspects, unknown},
};
use serde_json::json;

use crate::samples::two_timeouts;

const LEVEL: &str = "orders.delay.1s";

fn held(count: u64) -> BTreeMap<String, QueueStats> {
    held_in(LEVEL, count)
}

fn held_in(queue: &str, count: u64) -> BTreeMap<String, QueueStats> {
    let stats = QueueStats {
        name: queue.to_owned(),
        messages: Some(count + 7),
        messages_ready: Some(7),
        messages_unacknowledged: Some(0),
        messages_dlx: Some(count),
        ..QueueStats::default()
    };
    BTreeMap::from([(queue.to_owned(), stats)])
}

fn severities(before: u64, now: u64, observed: &Snapshot) -> Vec<Severity> {
    let found =
        stuck(&two_timeouts(), observed, &held(before), &held(now), Duration::from_secs(11), 32);
    found.into_iter().map(|found| found.severity).collect()
}

#[test]
fn one_reading_only_raises_suspicion() {
    let observed = Snapshot::of(&two_timeouts());
    assert_eq!(suspects(&two_timeouts(), &observed, &held(1)), BTreeSet::from([LEVEL.to_owned()]));
    assert_eq!(suspects(&two_timeouts(), &observed, &held(0)), BTreeSet::new());
    assert_eq!(severities(40, 0, &observed), []);
    assert_eq!(severities(0, 40, &observed), []);
}

/// A queue without a leader has no numbers.
#[test]
fn not_known_is_not_none() {
    let observed = Snapshot::of(&two_timeouts());
    let mut stats: BTreeMap<String, QueueStats> =
        observed.objects.queues.keys().flat_map(|queue| held_in(queue, 0)).collect();
    assert_eq!(unknown(&two_timeouts(), &observed, &stats), Vec::<String>::new());
    assert_eq!(not_known(&[]), None);
    stats.insert(LEVEL.to_owned(), QueueStats { name: LEVEL.to_owned(), ..QueueStats::default() });
    stats.remove("orders.unpaid");
    let queues = unknown(&two_timeouts(), &observed, &stats);
    assert_eq!(queues, [LEVEL, "orders.unpaid"]);
    let found = not_known(&queues).unwrap();
    assert_eq!(found.severity, Severity::Warning);
    assert_eq!(found.message, "the broker has no numbers of orders.delay.1s, orders.unpaid");
}

#[test]
fn how_bad_it_is() {
    let well = Snapshot::of(&two_timeouts());
    assert_eq!(severities(5, 5, &well), [Severity::Note], "tried again within three minutes");
    assert_eq!(severities(40, 32, &well), [Severity::Warning], "all slots");
    let mut broken = well.clone();
    broken.objects.exchanges.get_mut("orders.dlx").unwrap().arguments.clear();
    assert_eq!(severities(1, 1, &broken), [Severity::Error]);
}

#[test]
fn brokers_that_do_not_count_dead_letters() {
    let counts = |messages, ready, unacked, delayed| QueueStats {
        messages: Some(messages),
        messages_ready: Some(ready),
        messages_unacknowledged: Some(unacked),
        messages_delayed: delayed,
        ..QueueStats::default()
    };
    assert_eq!(counts(10, 4, 1, None).dead_letters(), Some(5));
    assert_eq!(counts(10, 4, 1, Some(5)).dead_letters(), Some(0));
    assert_eq!(counts(3, 4, 1, None).dead_letters(), Some(0), "read at different moments");
    assert_eq!(QueueStats::default().dead_letters(), None);
}

fn blocked(change: impl FnOnce(&mut Snapshot, &mut BTreeMap<String, QueueStats>)) -> Vec<String> {
    let (mut observed, mut stats) = (Snapshot::of(&two_timeouts()), held(40));
    change(&mut observed, &mut stats);
    let queue = observed.objects.queues[LEVEL].clone();
    let found = blockers(&two_timeouts(), &observed, &stats, &queue);
    found.iter().map(ToString::to_string).collect()
}

fn full(limit: &str) -> BTreeMap<String, QueueStats> {
    let stats = QueueStats {
        name: "orders.unpaid".to_owned(),
        messages: Some(10),
        message_bytes: Some(1_000),
        effective_policy_definition: BTreeMap::from([(limit.to_owned(), json!(10))]),
        ..QueueStats::default()
    };
    BTreeMap::from([("orders.unpaid".to_owned(), stats)])
}

#[test]
fn what_can_block() {
    assert_eq!(blocked(|_, _| ()), Vec::<String>::new());
    let without_route = blocked(|observed, _| {
        let objects = &mut observed.objects;
        objects.exchanges.get_mut("orders.dlx").unwrap().arguments.clear();
        objects.bindings.retain(|binding| binding.routing_key != "#.unpaid");
    });
    let without_parking_lot = blocked(|observed, _| {
        observed.objects.exchanges.remove("orders.park");
        observed.objects.bindings.retain(|binding| binding.routing_key != "#.unpaid");
    });
    let without_exchange = blocked(|observed, _| {
        observed.objects.exchanges.remove("orders.dlx");
    });
    let cycle = blocked(|observed, _| {
        let mut binding =
            observed.objects.bindings.iter().find(|b| b.routing_key == "#.unpaid").unwrap().clone();
        binding.destination = LEVEL.to_owned();
        observed.objects.bindings.insert(binding);
    });
    let too_many = blocked(|_, stats| stats.extend(full("max-length")));
    let too_large = blocked(|_, stats| stats.extend(full("max-length-bytes")));
    let renamed = blocked(|_, stats| {
        let level = stats.get_mut(LEVEL).unwrap();
        level.effective_policy_definition.insert("dead-letter-routing-key".to_owned(), json!("x"));
    });
    insta::assert_debug_snapshot!([
        without_route,
        without_parking_lot,
        without_exchange,
        cycle,
        too_many,
        too_large,
        renamed,
    ]);
}

#[test]
fn a_full_queue_that_drops_its_oldest_blocks_nobody() {
    let found = blocked(|observed, stats| {
        stats.extend(full("max-length"));
        let target = observed.objects.queues.get_mut("orders.unpaid").unwrap();
        target.arguments.insert("x-overflow".to_owned(), Argument::Text("drop-head".to_owned()));
    });
    assert_eq!(found, Vec::<String>::new());
}

#[test]
fn routing_goes_through_exchanges_and_alternates() {
    let objects = two_timeouts().objects();
    let queues = |exchange: &str, key: &str| {
        route(&objects, exchange, key).queues.into_iter().collect::<Vec<_>>()
    };
    assert_eq!(queues("orders.in", "30m.unpaid"), ["orders.delay.30m"]);
    assert_eq!(queues("orders.dlx", "30m.unpaid"), ["orders.unpaid"]);
    assert_eq!(queues("orders.dlx", "unpaid"), ["orders.unpaid"]);
    assert_eq!(queues("orders.dlx", "30m.unpaid.x"), ["orders.parked"]);
    assert_eq!(queues("orders.in", "7m.unpaid"), ["orders.parked"]);
    assert_eq!(route(&objects, "nowhere", "x").missing, BTreeSet::from(["nowhere".to_owned()]));
}
