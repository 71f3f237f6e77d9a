//! Differences from the topology, bindings, settings and consumers of others, and the numbers of queues.

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt::Write,
    time::Duration,
};

use overdue::internals::{
    diagnostic::Severity,
    objects::{Argument, Exchange, Queue, route},
    plan::{Change, QueueStats, Snapshot, diff},
    topology::Topology,
    verify::{
        MemberState, VerifyReport, blockers, findings, is_wrong, leaders_not_known, no_leader,
        not_known, stuck, suspects, unknown,
    },
};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{NOW, Table, argument, bind, binding, unbind};
use crate::{
    broker_model::{applied, plan},
    generate,
    samples::{LADDER, TWO_TIMEOUTS, two_timeouts},
};

const NOW_MS: u64 = 1_795_600_000_000;
const LEVEL: &str = "orders.delay.1s";

#[test]
fn nothing_is_wrong_with_what_was_just_applied() {
    let (topology, observed) = (two_timeouts(), Snapshot::of(&two_timeouts()));
    let found = findings(&topology, &observed, &BTreeMap::new(), NOW);
    let report = VerifyReport::new(&topology, "shop", &observed, found, None);
    assert!(report.ok && report.findings.is_empty());
    insta::assert_snapshot!(report, @"OK: topology `orders` matches the broker, 6 queues");
}

#[test]
fn every_missing_object() {
    let (topology, empty) = (two_timeouts(), Snapshot::default());
    let found = findings(&topology, &empty, &BTreeMap::new(), NOW);
    insta::assert_snapshot!(VerifyReport::new(&topology, "shop", &empty, found, None));
}

#[test]
fn what_differs() {
    let topology = two_timeouts();
    let mut table = Table::new(&topology);
    // A shovel or a person consumes messages, which are lost. A person may read the parking lot.
    table.row("consumers of others", |it| {
        for queue in ["orders.delay.30m", "orders.unpaid", "orders.parked"] {
            it.foreign_consumers.insert(queue.to_owned(), 1);
        }
    });
    table.row("a timeout with another name before", |it| {
        let old = Topology::parse(&TWO_TIMEOUTS.replace("unshipped", "unconfirmed")).unwrap();
        *it = Snapshot::of(&old);
        it.messages.insert("orders.unconfirmed".to_owned(), 7);
    });
    table.row("a queue and an exchange with other arguments", |it| {
        argument(&mut it.objects, "orders.delay.30m", "x-message-ttl", Argument::Integer(60_000));
        let queue = it.objects.queues.get_mut("orders.delay.30m").unwrap();
        queue.arguments.remove("x-overflow");
        it.messages.insert("orders.delay.30m".to_owned(), 12);
        it.objects.exchanges.get_mut("orders.in").unwrap().arguments.clear();
    });
    // A cause is reported once, not again by the rules about objects.
    table.row("a binding is missing", |it| unbind(&mut it.objects, "orders.unpaid"));
    table.row("a level that is led back to itself", |it| {
        bind(&mut it.objects, "orders.dlx", "orders.delay.30m", "#");
    });
    table.row("another dead letter exchange", |it| {
        argument(&mut it.objects, "orders.delay.30m", "x-dead-letter-exchange", "gone");
    });
    table.row("events to a business queue", |it| {
        bind(&mut it.objects, "orders.events", "orders.unpaid", "#");
    });
    table.row("a binding by headers", |it| {
        let mut foreign = binding(&it.objects, "orders.park", "audit", "");
        foreign.arguments.insert("x-match".to_owned(), "all".into());
        it.objects.bindings.insert(foreign);
    });
    let probe = "orders.probe.canary0badcafe";
    for (name, exclusive) in [("a probe", true), ("a queue that is named like a probe", false)] {
        table.row(name, |it| {
            let plain = it.objects.queues["orders.unpaid"].clone();
            let queue = Queue { name: probe.to_owned(), exclusive, ..plain };
            it.objects.queues.insert(queue.name.clone(), queue);
            bind(&mut it.objects, "orders.dlx", probe, "#.canary0badcafe");
        });
    }
    table.row("the binding of a probe that has ended", |it| {
        bind(&mut it.objects, "orders.dlx", probe, "#.canary0badcafe");
    });
    let classic = Topology::parse(&TWO_TIMEOUTS.replace("quorum", "classic")).unwrap();
    let mut classic = Table::new(&classic);
    classic.row("classic queues, without the due exchange", |it| {
        it.objects.exchanges.remove("orders.dlx");
    });
    let compat = format!("{TWO_TIMEOUTS}\n[compat.x-delay]\nexchange = \"reminders\"\n");
    let compat = Topology::parse(&compat).unwrap();
    let mut compat = Table::new(&compat);
    // The exchange contains delayed messages, so no command to delete it is shown.
    compat.row("an exchange of the plugin to take over", |it| {
        it.objects.exchanges.get_mut("reminders").unwrap().kind = "x-delayed-message".to_owned();
    });
    insta::assert_snapshot!(format!("{table}{classic}{compat}"));
}

type Edit = fn(&mut Snapshot);

/// A queue that is replaced, after one run of the plan.
#[test]
fn what_is_replaced_and_drains() {
    let topology = two_timeouts();
    let mut table = Table::new(&topology);
    let edits: [(&str, Edit); 4] = [
        ("consumed by others", |it| {
            it.foreign_consumers.insert("orders.unpaid".to_owned(), 1);
        }),
        ("without its mark", |it| {
            let bindings = &mut it.objects.bindings;
            bindings.retain(|it| it.destination != "orders.unpaid" || it.mark_of().is_none());
        }),
        ("with messages", |it| {
            it.messages.insert("orders.unpaid".to_owned(), 3);
        }),
        ("empty", |_| ()),
    ];
    for (name, edit) in edits {
        table.row(name, |it| {
            argument(&mut it.objects, "orders.unpaid", "x-max-length", Argument::Integer(7));
            edit(it);
            *it = applied(it, &plan(&two_timeouts(), it));
        });
    }
    for (messages, gone) in [(7, true), (0, true), (7, false)] {
        table.row(
            format!("a level, {messages} messages, its dead letters nowhere: {gone}"),
            |it| {
                argument(&mut it.objects, "orders.delay.30m", "x-max-length", Argument::Integer(7));
                it.messages.insert("orders.delay.30m".to_owned(), 1);
                *it = applied(it, &plan(&two_timeouts(), it));
                if gone {
                    argument(&mut it.objects, "orders.delay.30m", "x-dead-letter-exchange", "gone");
                }
                it.messages.insert("orders.delay.30m".to_owned(), messages);
            },
        );
    }
    insta::assert_snapshot!(table);
}

/// Many exchanges and queues of another program cost little time, and a route back through them is found.
#[test]
fn twenty_thousand_bindings_of_others() {
    let topology = Topology::parse(LADDER).unwrap();
    let mut observed = Snapshot::of(&topology);
    let objects = &mut observed.objects;
    let (exchange, queue) =
        (objects.exchanges["orders.in"].clone(), objects.queues["orders.parked"].clone());
    for at in 0..200 {
        let exchange = Exchange { name: format!("theirs.{at}"), ..exchange.clone() };
        objects.exchanges.insert(exchange.name.clone(), exchange);
    }
    for at in 0..20_000 {
        let queue = Queue { name: format!("theirs.queue.{at}"), ..queue.clone() };
        bind(objects, &format!("theirs.{}", at % 200), &queue.name, &format!("key.{at}.#"));
        objects.queues.insert(queue.name.clone(), queue);
    }
    assert_eq!(findings(&topology, &observed, &BTreeMap::new(), NOW), []);
    for (source, destination) in
        [("orders.dlx", "theirs.0"), ("theirs.0", "theirs.1"), ("theirs.1", "orders.ladder.1s")]
    {
        bind(&mut observed.objects, source, destination, "#");
    }
    let found = findings(&topology, &observed, &BTreeMap::new(), NOW);
    assert!(found.iter().any(|found| found.rule == "dead-letter-cycle"), "{found:?}");
}

/// Numbers of one queue in the format of the management API.
fn numbers(queue: &str, more: &Value) -> BTreeMap<String, QueueStats> {
    let mut numbers = json!({ "name": queue, "type": "quorum", "messages": 0, "messages_ready": 0,
                              "messages_unacknowledged": 0, "messages_dlx": 0 });
    numbers.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    BTreeMap::from([(queue.to_owned(), serde_json::from_value(numbers).unwrap())])
}

/// Every policy key of the broker, for each kind and type of queue: the findings and their severity.
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
        json!({ "delivery-limit": 100 }),
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
            for queue in [LEVEL, "orders.unpaid", "orders.parked"] {
                let policy = json!({ "policy": "p", "effective_policy_definition": setting });
                for found in findings(&topology, &observed, &numbers(queue, &policy), NOW) {
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
fn what_the_numbers_of_queues_show() {
    let topology = two_timeouts();
    let mut table = Table::new(&topology);
    let held =
        |ms: u64| json!({ "messages_delayed": 1, "next_delayed_at": ms, "last_delayed_at": ms });
    let two = json!({ "messages": 2, "messages_delayed": 2, "next_delayed_at": NOW_MS + 5_000,
                      "last_delayed_at": NOW_MS + 60_000 });
    let ten_years = NOW_MS + 315_360_000_000;
    // A millisecond after the last timer of a node that started at that time: this has ended a queue.
    let too_far = 11_018_882_309_297;
    for (name, queue, more) in [
        (
            "a policy and an operator policy",
            "orders.delay.30m",
            json!({ "policy": "p", "operator_policy": "cap it",
                    "effective_policy_definition": { "expires": 5 } }),
        ),
        ("ready messages", "orders.parked", json!({ "messages": 40, "messages_ready": 40 })),
        // A missing value may be a text.
        (
            "no numbers",
            "orders.parked",
            json!({ "messages_delayed": "", "next_delayed_at": "undefined", "last_delayed_at": [] }),
        ),
        ("odd numbers", "orders.parked", json!({ "messages_delayed": -1, "last_delayed_at": -1 })),
        ("held back in a level", "orders.delay.30m", two.clone()),
        ("held back in the parking lot", "orders.parked", two.clone()),
        // An older broker may report no time.
        ("held back until a time not known", LEVEL, json!({ "messages_delayed": 1 })),
        // Delayed retry does this, and is allowed there.
        ("held back in a business queue", "orders.unpaid", two.clone()),
        ("held back in a queue of others", "somebody.elses", two),
        ("ten years", "orders.unpaid", held(ten_years)),
        ("ten years and a millisecond", "orders.unpaid", held(ten_years + 1)),
        ("too far", "orders.delay.30m", held(too_far)),
        ("microseconds", "orders.unpaid", held(NOW_MS * 1_000)),
        ("the largest that a header can say", "orders.parked", held(i64::MAX.unsigned_abs())),
        (
            "a shielded one",
            "orders.parked",
            json!({ "messages_delayed": 2, "next_delayed_at": NOW_MS + 60_000,
                    "last_delayed_at": too_far }),
        ),
    ] {
        table.with_stats(name, &numbers(queue, &more), |_| ());
    }
    insta::assert_snapshot!(table);
}

/// Neither ready nor unacked; the count of all may be a moment older.
#[test]
fn a_queue_that_only_holds_messages_back_is_not_empty() {
    let after =
        TWO_TIMEOUTS.replace(", \"30m\"]", "]").replace("after = \"30m\"", "after = \"1s\"");
    let after = Topology::parse(&after).unwrap();
    let deletes = |more: Value| {
        let held = numbers("orders.delay.30m", &more)["orders.delay.30m"].held();
        let mut observed = Snapshot::of(&two_timeouts());
        observed.messages.remove("orders.delay.30m");
        observed.messages.extend(held.map(|held| ("orders.delay.30m".to_owned(), held)));
        diff(&after, &observed, &BTreeSet::new()).changes().any(|change| {
            matches!(change, Change::DeleteQueue { queue, .. } if queue == "orders.delay.30m")
        })
    };
    assert!(deletes(json!({})));
    assert!(deletes(json!({ "messages_delayed": 0 })));
    assert!(!deletes(json!({ "messages": 1, "messages_delayed": 1 })));
    assert!(!deletes(json!({ "messages": 0, "messages_delayed": 1 })));
    assert!(!deletes(json!({ "messages": null, "messages_delayed": 0 })), "not known is not none");
}

#[test]
fn a_queue_without_a_leader_or_without_numbers() {
    let topology = two_timeouts();
    let observed = Snapshot::of(&topology);
    let mut table = Table::new(&topology);
    let state =
        |node: &str, state: &str| MemberState { node: node.to_owned(), state: state.to_owned() };
    let members = vec![state("rabbit@a", "noproc"), state("rabbit@b", "pre_vote")];
    let without = BTreeMap::from([
        ("orders.unpaid".to_owned(), members),
        (LEVEL.to_owned(), Vec::new()),
        // A queue that was deleted meanwhile.
        ("orders.delay.7s".to_owned(), Vec::new()),
    ]);
    table.found("no leader", &no_leader(&topology, &observed, &without));
    table.found("leaders not known", &[leaders_not_known("500 Internal Server Error")]);
    let mut read: BTreeMap<String, QueueStats> =
        observed.objects.queues.keys().flat_map(|queue| numbers(queue, &json!({}))).collect();
    assert_eq!(unknown(&topology, &observed, &read), [""; 0]);
    assert_eq!(not_known(&[]), None);
    read.insert(LEVEL.to_owned(), QueueStats { name: LEVEL.to_owned(), ..QueueStats::default() });
    read.remove("orders.unpaid");
    let queues = unknown(&topology, &observed, &read);
    table.found("no numbers", &not_known(&queues).into_iter().collect::<Vec<_>>());
    insta::assert_snapshot!(table);
}

fn dead_letters(count: u64) -> BTreeMap<String, QueueStats> {
    let more = json!({ "messages": count + 7, "messages_ready": 7, "messages_dlx": count });
    numbers(LEVEL, &more)
}

/// Dead letters in two readings: an error only if their cause does not end by itself.
#[test]
fn dead_letters_that_are_stuck() {
    let (topology, well) = (two_timeouts(), Snapshot::of(&two_timeouts()));
    let mut broken = well.clone();
    broken.objects.exchanges.get_mut("orders.dlx").unwrap().arguments.clear();
    for (before, now, observed, expected) in [
        (40, 0, &well, None),
        (0, 40, &well, None),
        (5, 5, &well, Some(Severity::Note)),
        (40, 32, &well, Some(Severity::Warning)),
        (1, 1, &broken, Some(Severity::Error)),
    ] {
        let [before, now] = [before, now].map(dead_letters);
        let found = stuck(&topology, observed, &before, &now, Duration::from_secs(11), 32);
        assert_eq!(found.first().map(|found| found.severity), expected, "{found:?}");
        assert!(found.len() < 2);
    }
    assert_eq!(suspects(&topology, &well, &dead_letters(1)), BTreeSet::from([LEVEL.to_owned()]));
    assert_eq!(suspects(&topology, &well, &dead_letters(0)), BTreeSet::new());
    let counts = |messages, ready, unacked, delayed| {
        let more = json!({ "messages": messages, "messages_ready": ready, "messages_dlx": null,
                           "messages_unacknowledged": unacked, "messages_delayed": delayed });
        numbers(LEVEL, &more)[LEVEL].dead_letters()
    };
    // Brokers that do not count them.
    assert_eq!(counts(Some(10), 4, 1, None), Some(5));
    assert_eq!(counts(Some(10), 4, 1, Some(5)), Some(0));
    assert_eq!(counts(Some(3), 4, 1, None), Some(0), "read at different moments");
    assert_eq!(counts(None, 4, 1, None), None);
}

#[test]
fn what_can_block_a_level() {
    let mut table = String::new();
    let full = |limit: &str| {
        let more = json!({ "messages": 10, "message_bytes": 1_000,
                           "effective_policy_definition": { limit: 10 } });
        numbers("orders.unpaid", &more)
    };
    let renamed = json!({ "messages_dlx": 40,
                          "effective_policy_definition": { "dead-letter-routing-key": "x" } });
    let without_route = |it: &mut Snapshot| {
        it.objects.bindings.retain(|binding| binding.routing_key != "#.unpaid");
    };
    let none = BTreeMap::new;
    let mut row = |name: &str, stats: BTreeMap<_, _>, edit: &dyn Fn(&mut Snapshot)| {
        let (mut observed, mut all) = (Snapshot::of(&two_timeouts()), dead_letters(40));
        edit(&mut observed);
        all.extend(stats);
        let queue = observed.objects.queues[LEVEL].clone();
        writeln!(table, "# {name}").unwrap();
        for blocker in blockers(&two_timeouts(), &observed, &all, &queue) {
            writeln!(table, "{blocker}").unwrap();
        }
    };
    row("nothing", none(), &|_| ());
    row("no route", none(), &|it| {
        it.objects.exchanges.get_mut("orders.dlx").unwrap().arguments.clear();
        without_route(it);
    });
    row("no parking lot", none(), &|it| {
        it.objects.exchanges.remove("orders.park");
        without_route(it);
    });
    row("no exchange", none(), &|it| {
        it.objects.exchanges.remove("orders.dlx");
    });
    row("a cycle", none(), &|it| bind(&mut it.objects, "orders.dlx", LEVEL, "#.unpaid"));
    row("too many messages", full("max-length"), &|_| ());
    row("too many bytes", full("max-length-bytes"), &|_| ());
    row("a full queue that drops its oldest", full("max-length"), &|it| {
        argument(&mut it.objects, "orders.unpaid", "x-overflow", Argument::from("drop-head"));
    });
    row("a policy with another routing key", numbers(LEVEL, &renamed), &|_| ());
    insta::assert_snapshot!(table);
}

#[test]
fn routing_goes_through_exchanges_and_alternates() {
    let objects = two_timeouts().objects();
    for (exchange, key, queue) in [
        ("orders.in", "30m.unpaid", "orders.delay.30m"),
        ("orders.dlx", "30m.unpaid", "orders.unpaid"),
        ("orders.dlx", "unpaid", "orders.unpaid"),
        ("orders.dlx", "30m.unpaid.x", "orders.parked"),
        ("orders.in", "7m.unpaid", "orders.parked"),
    ] {
        let queues: Vec<_> = route(&objects, exchange, key).queues.into_iter().collect();
        assert_eq!(queues, [queue], "{exchange} {key}");
    }
    assert_eq!(route(&objects, "nowhere", "x").missing, BTreeSet::from(["nowhere".to_owned()]));
}

proptest! {
    /// Objects outside the prefix, and their bindings to each other, are not reported.
    #[test]
    fn nothing_is_wrong_with_any_topology_that_was_applied(
        topology in generate::topology(), name in "[a-z]{1,8}", key in "[a-z.#*]{0,8}",
    ) {
        prop_assume!(name != topology.name);
        let mut observed = Snapshot::of(&topology);
        let objects = &mut observed.objects;
        let exchange = objects.exchanges[&topology.entry_exchange()].clone();
        objects.exchanges.insert(name.clone(), Exchange { name: name.clone(), ..exchange });
        let queue = objects.queues.values().next().unwrap().clone();
        let queue = Queue { name: format!("{name}.delay.1s"), ..queue };
        bind(objects, &name, &queue.name, &key);
        bind(objects, &topology.events_exchange(), &queue.name, &key);
        objects.queues.insert(queue.name.clone(), queue);
        prop_assert_eq!(findings(&topology, &observed, &BTreeMap::new(), NOW), vec![]);
    }

    /// There are findings if and only if there is something to plan.
    #[test]
    fn whatever_is_taken_away_is_found(topology in generate::topology(), which: prop::sample::Index) {
        let mut observed = Snapshot::of(&topology);
        let bindings = &mut observed.objects.bindings;
        let binding = which.get(&bindings.iter().cloned().collect::<Vec<_>>()).clone();
        bindings.remove(&binding);
        let found = findings(&topology, &observed, &BTreeMap::new(), NOW);
        prop_assert_eq!(found.len(), 1);
        // A queue without its mark works; only we do not recognise it as ours.
        let mark = binding.mark_of().is_some();
        prop_assert_eq!(found[0].severity, if mark { Severity::Note } else { Severity::Error });
        prop_assert!(!plan(&topology, &observed).is_empty() && is_wrong(&found) != mark);
    }
}
