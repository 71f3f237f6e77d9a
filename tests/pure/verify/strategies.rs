//! A ladder, the plugin's exchange and an exchange that is taken over: missing objects, and bindings of others.

use std::collections::BTreeMap;

use overdue::internals::{
    diagnostic::{Fix, Severity},
    objects::{Argument, Binding, Queue},
    plan::{Policy, Snapshot},
    topology::Topology,
    verify::{findings, foreseen},
};
use serde_json::{Value, json};

use super::{NOW, Table, alternate, argument, bind, binding, foreign};
use crate::{
    broker_model::{applied, plan},
    samples::{DELAYED, LADDER, TWO_TIMEOUTS, dotted_compat},
};

/// A small ladder that fits into one picture: three places and a level.
fn small() -> Topology {
    let text = LADDER.replace("max = \"30d\"", "max = \"1m\"");
    Topology::parse(&text.replace("[delay]", "[delay]\nlevels = [\"30m\"]")).unwrap()
}

fn delayed() -> Topology {
    Topology::parse(DELAYED).unwrap()
}

#[test]
fn nothing_is_wrong_with_what_was_just_applied() {
    let written = [LADDER, DELAYED]
        .map(|it| [it.to_owned(), it.replace("[delay]", "queues.type = \"classic\"\n[delay]")]);
    for topology in written.iter().flatten().map(|text| Topology::parse(text).unwrap()) {
        let found = findings(&topology, &Snapshot::of(&topology), &BTreeMap::new(), NOW);
        assert!(found.iter().all(|it| it.rule == "held-in-memory"), "{found:?}");
    }
}

/// A strategy drains under another: its messages still arrive, and no command removes their route.
#[test]
fn a_strategy_that_drains_is_a_note() {
    let olds = [small(), delayed()];
    let nows = [TWO_TIMEOUTS, LADDER, DELAYED].map(|text| Topology::parse(text).unwrap());
    let pairs = olds.iter().flat_map(|old| nows.iter().map(move |now| (old, now)));
    for (old, now) in pairs.filter(|(old, now)| old.strategy != now.strategy) {
        let mut observed = Snapshot::of(now);
        let before = Snapshot::of(old);
        observed.objects.exchanges.extend(before.objects.exchanges);
        observed.objects.queues.extend(before.objects.queues);
        observed.objects.bindings.extend(before.objects.bindings);
        let waits = |it: &Queue| (it.name.clone(), u64::from(it.message_ttl_ms().is_some()));
        observed.messages = observed.objects.queues.values().map(waits).collect();
        observed.delayed = before.delayed.keys().map(|it| (it.clone(), 1)).collect();
        let observed = applied(&observed, &plan(now, &observed));
        let found = findings(now, &observed, &BTreeMap::new(), NOW);
        assert!(found.iter().any(|it| it.rule == "draining" || it.rule == "retired-exchange"));
        for it in found {
            assert_eq!(it.severity, Severity::Note, "{it:?}");
            assert!(!matches!(it.fix, Some(Fix::Unbind(_))), "{it:?}");
        }
    }
}

#[test]
fn a_ladder() {
    let topology = small();
    let mut table = Table::new(&topology);
    table.row("nothing is there", |it| *it = Snapshot::default());
    let places: Vec<String> =
        topology.objects().exchanges.into_keys().filter(|it| it.contains(".ladder.")).collect();
    let [one, two] = [&places[0], &places[1]];
    table.row("bindings", |it| {
        let between = |it: &&Binding| !it.to_queue && it.mark_of().is_none();
        let missing = it.objects.bindings.iter().find(between).unwrap().clone();
        it.objects.bindings.remove(&missing);
        bind(&mut it.objects, one, "reports", "#");
        bind(&mut it.objects, two, "orders.unpaid", "#");
        bind(&mut it.objects, "orders.dlx", two, "again.#");
        bind(&mut it.objects, "shop", one, "#");
    });
    for place in places.iter().filter(|it| !it.contains(".ladder.again")) {
        table.row(format!("an exchange without queues on {place}"), |it| {
            foreign(&mut it.objects, "audit", "topic");
            bind(&mut it.objects, place, "audit", "#");
        });
    }
    insta::assert_snapshot!(table);
}

#[test]
fn the_plugins_exchange() {
    let topology = delayed();
    let mut table = Table::new(&topology);
    table.row("nothing is there", |it| *it = Snapshot::default());
    table.row("bindings", |it| {
        let missing = binding(&it.objects, "orders.delayed", "orders.unpaid", "#.unpaid");
        assert!(it.objects.bindings.remove(&missing));
        bind(&mut it.objects, "orders.delayed", "reports", "#");
        bind(&mut it.objects, "orders.delayed", "orders.unpaid", "#.unshipped");
        bind(&mut it.objects, "shop", "orders.delayed", "#");
    });
    // This exchange would get every message at once.
    table.row("an alternate exchange", |it| {
        alternate(&mut it.objects, "orders.delayed", Some("orders.park"));
    });
    table.row("how many it holds is not known", |it| it.delayed.clear());
    table.row("it holds seven", |it| {
        it.delayed.insert("orders.delayed".to_owned(), 7);
    });
    insta::assert_snapshot!(table);
}

fn policy(name: &str, pattern: &str, apply_to: &str, definition: &Value) -> Policy {
    serde_json::from_value(json!({
        "name": name, "pattern": pattern, "apply-to": apply_to, "priority": 0, "definition": definition,
    }))
    .unwrap()
}

/// Policies of exchanges: an alternate exchange that breaks a promise, and federation.
#[test]
fn policies_of_exchanges() {
    let [ladder, plugin] = [small(), delayed()];
    let mut tables = String::new();
    for (topology, exchange, key) in [
        (&plugin, "orders.delayed", "alternate-exchange"),
        (&plugin, "orders.delayed", "federation-upstream-set"),
        (&plugin, "orders.in", "alternate-exchange"),
        (&ladder, "orders.in", "alternate-exchange"),
        (&ladder, "orders.again", "alternate-exchange"),
        (&ladder, "orders.ladder.again", "alternate-exchange"),
        (&ladder, "orders.delayed", "alternate-exchange"),
        (&ladder, "orders.(in|dlx)", "federation-upstream"),
        (&ladder, "orders", "federation-upstream"),
    ] {
        let mut table = Table::new(topology);
        table.row(format!("{key} on {exchange}"), |it| {
            let pattern = format!("^{exchange}$");
            it.policies =
                vec![policy("audit", &pattern, "exchanges", &json!({ key: "orders.audit" }))];
        });
        tables += &table.to_string();
    }
    insta::assert_snapshot!(tables);
}

/// The forecast of `plan` about policies: which one applies, by pattern, kind, type and priority, and its merge with an operator
/// policy.
#[test]
fn what_policies_will_do() {
    let topology = Topology::parse(TWO_TIMEOUTS).unwrap();
    let ttl = |ms: u64| json!({ "message-ttl": ms });
    let hour = policy("hour", "^orders", "queues", &ttl(3_600_000));
    let second = |name: &str, kind| policy(name, "^orders[.]delay", kind, &ttl(1_000));
    let first = Policy { priority: 1, ..hour.clone() };
    let mut table = Table::new(&topology);
    for (name, policies, operator_policies) in [
        ("none", vec![], vec![]),
        ("longer than each level", vec![], vec![policy("lim", "delay", "all", &ttl(3_600_000))]),
        ("of another name", vec![policy("other", "^order$", "all", &ttl(1))], vec![]),
        ("no pattern", vec![policy("odd", "(", "all", &ttl(1))], vec![]),
        ("of exchanges", vec![second("odd", "exchanges")], vec![]),
        ("of classic queues", vec![second("old", "classic_queues")], vec![]),
        ("of quorum queues", vec![second("new", "quorum_queues")], vec![]),
        ("one applies alone", vec![first, second("none", "all")], vec![]),
        ("the smaller number", vec![hour.clone()], vec![second("lim", "all")]),
        ("the smaller number is the policy's", vec![second("short", "all")], vec![hour]),
        (
            "two that are no numbers",
            vec![policy("user", "[.]30m$", "all", &json!({ "overflow": "reject-publish" }))],
            vec![policy(
                "lim",
                "[.]30m$",
                "all",
                &json!({ "overflow": "drop-head", "expires": 20_000 }),
            )],
        ),
        (
            "federation",
            vec![policy(
                "fed",
                "^(?!amq[.]).*",
                "all",
                &json!({ "federation-upstream-set": "all" }),
            )],
            vec![],
        ),
    ] {
        let observed = Snapshot { policies, operator_policies, ..Snapshot::default() };
        let made = plan(&topology, &observed);
        let found = foreseen(&topology, &observed, &made);
        table.found(name, &found);
        // The finding about existing objects is the same.
        let there = applied(&observed, &made);
        let there = Snapshot {
            policies: observed.policies,
            operator_policies: observed.operator_policies,
            ..there
        };
        assert_eq!(foreseen(&topology, &there, &plan(&topology, &there)), found);
    }
    insta::assert_snapshot!(table);
}

/// The policy is on the upstream of a federation.
#[test]
fn a_federation_that_takes_from_here() {
    let topology = small();
    let mut table = Table::new(&topology);
    for exchange in ["orders.in", "orders.dlx", "orders.events"] {
        table.row(exchange, |it| {
            let name = "federation: it -> rabbit@elsewhere B";
            let objects = &mut it.objects;
            foreign(objects, name, "x-federation-upstream");
            let taken = binding(objects, exchange, name, "#");
            objects.bindings.insert(taken);
        });
    }
    insta::assert_snapshot!(table);
}

#[test]
fn a_taken_over_exchange() {
    let topology = Topology::parse(&dotted_compat()).unwrap();
    let mut table = Table::new(&topology);
    table.row("all is there", |_| ());
    table.row("nothing of it is there", |it| {
        *it = Snapshot::of(&Topology { compat: None, ..topology.clone() });
    });
    table.row("its bindings are missing", |it| {
        let kept = |it: &Binding| !it.destination.contains(".compat") || it.mark_of().is_some();
        it.objects.bindings.retain(kept);
    });
    insta::assert_snapshot!(table);
}

/// A timeout may be named `dlx`: its replaced queue must not hide the exchange.
#[test]
fn an_exchange_that_has_the_name_of_a_replaced_queue_is_looked_at() {
    let text = "name = \"orders\"\ndelay.strategy = \"ladder\"\ndelay.ladder.max = \"9s\"\n\
                timeout = [{ name = \"dlx\", after = \"1s\" }]\n";
    let topology = Topology::parse(text).unwrap();
    let mut table = Table::new(&topology);
    table.row("the queue has another argument, the exchange no binding", |it| {
        argument(&mut it.objects, "orders.dlx", "x-max-length", Argument::Integer(10));
        it.objects.bindings.retain(|it| it.to_queue || it.destination != "orders.dlx");
    });
    insta::assert_snapshot!(table);
}
