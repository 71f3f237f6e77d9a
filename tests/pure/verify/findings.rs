//! What is found in readings that are made up: every rule, every policy key, and nothing where nothing is wrong.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
};

use overdue::internals::{
    diagnostic::{Diagnostic, Severity, Target},
    objects::{Argument, Binding},
    plan::{QueueStats, Snapshot, diff},
    topology::Topology,
    verify::{VerifyReport, findings, is_wrong},
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::NOW;
use crate::samples::{TWO_TIMEOUTS, two_timeouts};

fn text(found: Vec<Diagnostic>, observed: &Snapshot) -> String {
    VerifyReport::new(&two_timeouts(), "shop", observed, found, None).to_string()
}

fn binding(source: &str, destination: &str, key: &str) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue: true,
        routing_key: key.to_owned(),
        arguments: BTreeMap::new(),
    }
}

#[test]
fn nothing_is_wrong_with_what_was_just_applied() {
    let (topology, observed) = (two_timeouts(), Snapshot::of(&two_timeouts()));
    assert_eq!(findings(&topology, &observed, &BTreeMap::new(), NOW), []);
    insta::assert_snapshot!(text(Vec::new(), &observed));
}

#[test]
fn every_missing_object() {
    let (topology, empty) = (two_timeouts(), Snapshot::default());
    insta::assert_snapshot!(text(findings(&topology, &empty, &BTreeMap::new(), NOW), &empty));
}

#[test]
fn classic_queues_lose_what_has_no_exchange() {
    let classic = Topology::parse(&TWO_TIMEOUTS.replace("quorum", "classic")).unwrap();
    let mut observed = Snapshot::of(&classic);
    observed.objects.exchanges.remove("orders.dlx");
    let found = findings(&classic, &observed, &BTreeMap::new(), NOW);
    assert_eq!(found[0].reason.as_deref(), Some("what comes due is dropped"));
}

/// A shovel, or somebody who looks: what it takes is gone. A person may look into the parking lot.
#[test]
fn consumers_of_others_on_queues_in_use() {
    let mut observed = Snapshot::of(&two_timeouts());
    for queue in ["orders.delay.30m", "orders.unpaid", "orders.parked"] {
        observed.foreign_consumers.insert(queue.to_owned(), 1);
    }
    insta::assert_snapshot!(text(
        findings(&two_timeouts(), &observed, &BTreeMap::new(), NOW),
        &observed
    ));
}

#[test]
fn retired_and_occupied_queues() {
    let old = Topology::parse(&TWO_TIMEOUTS.replace("unshipped", "unconfirmed")).unwrap();
    let mut observed = Snapshot::of(&old);
    observed.messages.insert("orders.unconfirmed".to_owned(), 7);
    let found = findings(&two_timeouts(), &observed, &BTreeMap::new(), NOW);
    insta::assert_snapshot!(text(found, &observed));
}

#[test]
fn a_queue_of_another_shape_and_what_comes_with_it() {
    let mut observed = Snapshot::of(&two_timeouts());
    let queue = observed.objects.queues.get_mut("orders.delay.30m").unwrap();
    queue.arguments.insert("x-message-ttl".to_owned(), Argument::Integer(60_000));
    queue.arguments.remove("x-overflow");
    observed.messages.insert("orders.delay.30m".to_owned(), 12);
    let exchange = observed.objects.exchanges.get_mut("orders.in").unwrap();
    exchange.arguments.clear();
    let found = findings(&two_timeouts(), &observed, &BTreeMap::new(), NOW);
    insta::assert_snapshot!(text(found, &observed));
}

/// What the plugin holds is lost with its exchange: no command that deletes it.
#[test]
fn an_exchange_of_the_plugin_is_left_step_by_step() {
    let text = format!("{TWO_TIMEOUTS}\n[compat.x-delay]\nexchange = \"reminders\"\n");
    let topology = Topology::parse(&text).unwrap();
    let mut observed = Snapshot::of(&topology);
    let exchange = observed.objects.exchanges.get_mut("reminders").unwrap();
    exchange.kind = "x-delayed-message".to_owned();
    let found = findings(&topology, &observed, &BTreeMap::new(), NOW);
    let target = Target { topology: "orders", virtual_host: "shop" };
    let fixes: Vec<_> = found.iter().map(|it| (it.rule, it.rendered(&target).fix)).collect();
    insta::assert_debug_snapshot!(fixes, @r#"
    [
        (
            "changed-exchange",
            Some(
                "delete it only once it holds nothing: that would be lost, and bindings of others go with it. The steps, and what it holds: overdue exit-plugin reminders",
            ),
        ),
    ]
    "#);
}

#[test]
fn a_probe_that_runs_is_no_foreign_subscriber() {
    let mut observed = Snapshot::of(&two_timeouts());
    let objects = &mut observed.objects;
    objects.bindings.insert(binding(
        "orders.dlx",
        "orders.probe.canary0badcafe",
        "#.canary0badcafe",
    ));
    assert_eq!(findings(&two_timeouts(), &observed, &BTreeMap::new(), NOW), []);
    let mut probe = observed.objects.queues["orders.unpaid"].clone();
    probe.name = "orders.probe.canary0badcafe".to_owned();
    probe.exclusive = true;
    observed.objects.queues.insert(probe.name.clone(), probe);
    assert_eq!(findings(&two_timeouts(), &observed, &BTreeMap::new(), NOW), []);
    let objects = &mut observed.objects;
    objects.bindings.insert(binding("orders.dlx", "orders.probes", "#"));
    assert_eq!(findings(&two_timeouts(), &observed, &BTreeMap::new(), NOW).len(), 1);
}

#[test]
fn somebody_elses_queue_takes_the_share_of_a_shard() {
    let text = TWO_TIMEOUTS.replacen("name = \"unpaid\"", "shards = 2\nname = \"unpaid\"", 1);
    let topology = Topology::parse(&text).unwrap();
    let mut observed = Snapshot::of(&topology);
    observed.objects.bindings.insert(binding("orders.unpaid.shards", "audit", "1"));
    let found = findings(&topology, &observed, &BTreeMap::new(), NOW);
    let found: Vec<_> = found.iter().map(|it| (it.severity, it.rule)).collect();
    assert_eq!(found, [(Severity::Error, "foreign-subscriber")]);
}

/// Somebody else's queue under such a name: it blocks the levels like any other.
#[test]
fn what_is_not_exclusive_is_no_probe() {
    let mut observed = Snapshot::of(&two_timeouts());
    let mut queue = observed.objects.queues["orders.unpaid"].clone();
    queue.name = "orders.probe.x".to_owned();
    observed.objects.queues.insert(queue.name.clone(), queue);
    observed.objects.bindings.insert(binding("orders.dlx", "orders.probe.x", "#"));
    let found = findings(&two_timeouts(), &observed, &BTreeMap::new(), NOW);
    assert_eq!(found.iter().map(|f| f.rule).collect::<Vec<_>>(), ["foreign-subscriber"]);
}

#[test]
fn a_binding_by_headers_is_deleted_with_its_arguments() {
    let mut observed = Snapshot::of(&two_timeouts());
    let mut foreign = binding("orders.park", "audit", "");
    foreign.arguments.insert("x-match".to_owned(), "all".into());
    observed.objects.bindings.insert(foreign);
    insta::assert_snapshot!(text(
        findings(&two_timeouts(), &observed, &BTreeMap::new(), NOW),
        &observed
    ));
}

/// Every policy key that the broker takes, against each kind of queue, of each type: what is reported, and how bad it is.
#[test]
fn every_policy_key() {
    let settings = [
        json!({ "message-ttl": 500 }),
        json!({ "message-ttl": 1000 }),
        json!({ "message-ttl": 9_999_999_999_u64 }),
        json!({ "overflow": "drop-head" }),
        json!({ "overflow": "reject-publish" }),
        json!({ "overflow": "reject-publish-dlx" }),
        json!({ "max-length": 5 }),
        json!({ "max-length": 5, "overflow": "drop-head" }),
        json!({ "max-length": 5, "overflow": "reject-publish" }),
        json!({ "max-length-bytes": 500 }),
        json!({ "expires": 3_600_000 }),
        json!({ "dead-letter-exchange": "elsewhere" }),
        json!({ "dead-letter-routing-key": "x" }),
        json!({ "dead-letter-strategy": "at-most-once" }),
        json!({ "delivery-limit": 3 }),
        json!({ "delivery-limit": 20 }),
        json!({ "delivery-limit": 50 }),
        json!({ "delivery-limit": -1 }),
        json!({ "max-in-memory-length": 5 }),
        json!({ "delayed-retry-type": "all", "delayed-retry-min": 1000 }),
        json!({ "delayed-retry-type": "disabled", "delayed-retry-min": 1000 }),
        json!({ "consumer-timeout": 10_000 }),
        json!({ "consumer-disconnected-timeout": 5_000 }),
        json!({ "queue-leader-locator": "balanced" }),
        json!({ "federation-upstream-set": "all" }),
    ];
    let mut table = String::new();
    for queue_type in ["quorum", "classic"] {
        let topology = Topology::parse(&TWO_TIMEOUTS.replace("quorum", queue_type)).unwrap();
        let observed = Snapshot::of(&topology);
        for setting in &settings {
            writeln!(table, "{queue_type} {setting}").unwrap();
            for queue in ["orders.delay.1s", "orders.unpaid", "orders.parked"] {
                for found in findings(&topology, &observed, &applied(queue, setting, None), NOW) {
                    let name = queue.trim_start_matches("orders.");
                    writeln!(table, "    {name:9} {:7} {}", found.severity, found.reason.unwrap())
                        .unwrap();
                }
            }
        }
    }
    insta::assert_snapshot!(table);
}

#[test]
fn policy_and_operator_policy_are_both_named() {
    let stats = applied("orders.delay.30m", &json!({ "expires": 5 }), Some("cap it"));
    let observed = Snapshot::of(&two_timeouts());
    insta::assert_snapshot!(text(findings(&two_timeouts(), &observed, &stats, NOW), &observed));
}

fn applied(queue: &str, setting: &Value, operator: Option<&str>) -> BTreeMap<String, QueueStats> {
    let definition = setting.as_object().unwrap().clone();
    let stats = QueueStats {
        name: queue.to_owned(),
        policy: Some("p".to_owned()),
        operator_policy: operator.map(str::to_owned),
        effective_policy_definition: definition.into_iter().collect(),
        ..QueueStats::default()
    };
    BTreeMap::from([(queue.to_owned(), stats)])
}

/// Topologies with some of the levels and timeouts there could be.
fn topologies() -> impl Strategy<Value = Topology> {
    let levels = prop::sample::subsequence(vec!["1s", "5s", "30m", "1h", "14d"], 1..=5);
    let timeouts = prop::sample::subsequence(vec!["unpaid", "unshipped", "late", "probe"], 1..=4);
    let kinds = prop::sample::select(vec!["quorum", "classic"]);
    (levels, timeouts, kinds).prop_map(|(levels, timeouts, kind)| {
        let first = levels[0];
        let mut text = format!(
            "name = \"orders\"\n[delay]\nlevels = {levels:?}\n[queues]\ntype = \"{kind}\"\n"
        );
        for timeout in timeouts {
            write!(text, "[[timeout]]\nname = \"{timeout}\"\nafter = \"{first}\"\n").unwrap();
        }
        Topology::parse(&text).unwrap()
    })
}

proptest! {
    #[test]
    fn nothing_is_wrong_with_any_topology_that_was_applied(topology in topologies()) {
        let observed = Snapshot::of(&topology);
        prop_assert_eq!(findings(&topology, &observed, &BTreeMap::new(), NOW), vec![]);
    }

    /// Something is found if and only if there is something to plan.
    #[test]
    fn whatever_is_taken_away_is_found(topology in topologies(), which in any::<prop::sample::Index>()) {
        let mut observed = Snapshot::of(&topology);
        let objects = &mut observed.objects;
        let bindings: Vec<Binding> = objects.bindings.iter().cloned().collect();
        let binding = &bindings[which.index(bindings.len())];
        objects.bindings.remove(binding);
        let found = findings(&topology, &observed, &BTreeMap::new(), NOW);
        prop_assert_eq!(found.len(), 1);
        // Without its mark a queue works; it is only not known for ours.
        let mark = binding.mark_of().is_some();
        let severity = if mark { Severity::Note } else { Severity::Error };
        prop_assert_eq!(found[0].severity, severity);
        let plan = diff(&topology, &observed, &BTreeSet::new());
        prop_assert!(!plan.is_empty() && is_wrong(&found) != mark);
    }

    /// Objects outside the prefix, and their bindings to each other, are nobody's business here.
    #[test]
    fn foreign_objects_are_never_reported(topology in topologies(), name in "[a-z]{1,8}", key in "[a-z.#*]{0,8}") {
        prop_assume!(name != "orders");
        let mut observed = Snapshot::of(&topology);
        let mut exchange = observed.objects.exchanges["orders.in"].clone();
        exchange.name.clone_from(&name);
        let mut queue = observed.objects.queues.values().next().unwrap().clone();
        queue.name = format!("{name}.delay.1s");
        observed.objects.bindings.insert(binding(&name, &queue.name, &key));
        observed.objects.bindings.insert(binding("orders.events", &queue.name, &key));
        observed.objects.exchanges.insert(name.clone(), exchange);
        observed.objects.queues.insert(queue.name.clone(), queue);
        prop_assert_eq!(findings(&topology, &observed, &BTreeMap::new(), NOW), vec![]);
    }
}
