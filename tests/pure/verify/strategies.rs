//! A ladder and the plugin's exchange: nothing is found where nothing is wrong, and what is missing says what happens then.

use std::collections::BTreeMap;

use overdue::internals::{
    diagnostic::{Fix, Severity},
    objects::{Argument, Binding, Queue},
    plan::{AppliedPolicy, Snapshot},
    topology::Topology,
    verify::{VerifyReport, exchange_policies, findings},
};

use super::NOW;
use crate::{
    broker_model::{applied, plan},
    samples::{DELAYED, LADDER, dotted_compat},
};

/// Small, so that everything fits into one picture: three places, with a level beside them.
fn small() -> Topology {
    let text = LADDER.replace("max = \"30d\"", "max = \"1m\"");
    let text = text.replace("[delay]", "[delay]\nlevels = [\"30m\"]");
    Topology::parse(&text).unwrap()
}

fn delayed() -> Topology {
    Topology::parse(DELAYED).unwrap()
}

fn text(topology: &Topology, observed: &Snapshot) -> String {
    let found = findings(topology, observed, &BTreeMap::new(), NOW);
    VerifyReport::new(topology, "shop", observed, found, None).to_string()
}

/// What differs from the fresh topology after `change`.
fn after(topology: &Topology, change: impl FnOnce(&mut Snapshot)) -> String {
    let mut observed = Snapshot::of(topology);
    change(&mut observed);
    text(topology, &observed)
}

fn binding(source: &str, destination: &str, to_queue: bool, key: &str) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue,
        routing_key: key.to_owned(),
        arguments: BTreeMap::new(),
    }
}

#[test]
fn nothing_is_wrong_with_what_was_just_applied() {
    for classic in [false, true] {
        for written in [LADDER, DELAYED] {
            let queues = if classic { "[queues]\ntype = \"classic\"\n[delay]" } else { "[delay]" };
            let topology = Topology::parse(&written.replace("[delay]", queues)).unwrap();
            let found = findings(&topology, &Snapshot::of(&topology), &BTreeMap::new(), NOW);
            assert!(found.iter().all(|it| it.rule == "held-in-memory"), "{found:?}");
        }
    }
    assert_eq!(findings(&small(), &Snapshot::of(&small()), &BTreeMap::new(), NOW), []);
}

/// One strategy drains under another: what comes out of it still finds its way, and no command takes that away.
#[test]
fn a_strategy_that_drains_is_a_note() {
    let levels = Topology::parse(crate::samples::TWO_TIMEOUTS).unwrap();
    let olds = [small(), delayed()];
    let nows = [levels, Topology::parse(LADDER).unwrap(), delayed()];
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
fn every_missing_object_of_a_ladder() {
    insta::assert_snapshot!(text(&small(), &Snapshot::default()));
}

#[test]
fn every_missing_object_of_the_plugins_exchange() {
    insta::assert_snapshot!(text(&delayed(), &Snapshot::default()));
}

#[test]
fn bindings_of_a_ladder() {
    let names: Vec<String> = small().objects().exchanges.into_keys().collect();
    let places: Vec<&String> = names.iter().filter(|it| it.contains(".ladder.")).collect();
    let [one, two] = [places[0].as_str(), places[1].as_str()];
    insta::assert_snapshot!(after(&small(), |observed| {
        let bindings = &mut observed.objects.bindings;
        let between = |it: &Binding| !it.to_queue && it.mark_of().is_none();
        let missing = bindings.iter().find(|it| between(it)).unwrap().clone();
        bindings.remove(&missing);
        bindings.insert(binding(one, "reports", true, "#"));
        bindings.insert(binding(two, "orders.unpaid", true, "#"));
        bindings.insert(binding("orders.dlx", two, false, "again.#"));
        bindings.insert(binding("shop", one, false, "#"));
    }));
}

#[test]
fn bindings_of_the_plugins_exchange() {
    insta::assert_snapshot!(after(&delayed(), |observed| {
        let bindings = &mut observed.objects.bindings;
        bindings.remove(&binding("orders.delayed", "orders.unpaid", true, "#.unpaid"));
        bindings.insert(binding("orders.delayed", "reports", true, "#"));
        bindings.insert(binding("orders.delayed", "orders.unpaid", true, "#.unshipped"));
        bindings.insert(binding("shop", "orders.delayed", false, "#"));
    }));
}

/// It would get every message at once.
#[test]
fn an_alternate_exchange_of_the_plugins_exchange() {
    let found = after(&delayed(), |observed| {
        let exchange = observed.objects.exchanges.get_mut("orders.delayed").unwrap();
        let park = Argument::from("orders.park");
        exchange.arguments.insert("alternate-exchange".to_owned(), park);
    });
    assert!(
        found.contains("the plugin sends each notice to the alternate exchange at once"),
        "{found}"
    );
}

/// Each exchange of a ladder: what its bindings do not take must get to the parking lot.
#[test]
fn each_place_needs_its_alternate_exchange() {
    let topology = small();
    let of_ladder = |it: &&String| it.contains(".ladder.") && !it.ends_with("ladder.again");
    for place in topology.objects().exchanges.keys().filter(of_ladder) {
        let found = after(&topology, |observed| {
            let objects = &mut observed.objects;
            let mut copy = objects.exchanges["orders.park"].clone();
            copy.name = "audit".to_owned();
            objects.exchanges.insert(copy.name.clone(), copy);
            objects.bindings.insert(binding(place, "audit", false, "#"));
        });
        let expected = format!("exchange {place}: exchange audit takes messages");
        assert!(found.contains(&expected), "{found}");
    }
}

/// In memory of one node: nobody can say more than how many there are, and on a cluster not even that.
#[test]
fn what_the_plugin_holds() {
    let mut observed = Snapshot::of(&delayed());
    observed.delayed.clear();
    let message = |observed: &Snapshot| {
        findings(&delayed(), observed, &BTreeMap::new(), NOW)[0].message.clone()
    };
    assert!(message(&observed).starts_with("how many messages it holds is not known"));
    observed.delayed.insert("orders.delayed".to_owned(), 7);
    assert_eq!(message(&observed), "it holds 7 messages");
    insta::assert_snapshot!(text(&delayed(), &observed));
}

/// The plugin's exchange can have no alternate exchange: it would get each notice at once. By a policy it can be given one.
#[test]
fn a_policy_that_gives_the_plugins_exchange_an_alternate_exchange() {
    let set = |key: &str| AppliedPolicy {
        policy: "audit".to_owned(),
        definition: BTreeMap::from([(key.to_owned(), "orders.audit".into())]),
    };
    let found = |topology: &Topology, exchange: &str, key: &str| {
        let policies = BTreeMap::from([(exchange.to_owned(), set(key))]);
        exchange_policies(topology, &Snapshot::of(topology), &policies)
    };
    let topology = delayed();
    let text = VerifyReport::new(
        &topology,
        "shop",
        &Snapshot::of(&topology),
        found(&topology, "orders.delayed", "alternate-exchange"),
        None,
    );
    insta::assert_snapshot!(text);
    assert_eq!(found(&topology, "orders.delayed", "federation-upstream-set"), []);
    assert_eq!(found(&topology, "orders.in", "alternate-exchange"), []);
    assert_eq!(found(&small(), "orders.in", "alternate-exchange"), []);
    for exchange in ["orders.again", "orders.ladder.again"] {
        let found = found(&small(), exchange, "alternate-exchange");
        let [found] = &found[..] else { panic!("{exchange}: {found:?}") };
        let reason = found.reason.as_deref().unwrap_or_default();
        assert!(reason.contains("a level that is gone is confirmed"), "{found:?}");
    }
    assert_eq!(found(&small(), "orders.delayed", "alternate-exchange"), []);
}

/// What is missing of `[compat.x-delay]`, and what becomes of messages then.
#[test]
fn every_missing_object_of_a_taken_over_exchange() {
    let topology = Topology::parse(&dotted_compat()).unwrap();
    assert_eq!(findings(&topology, &Snapshot::of(&topology), &BTreeMap::new(), NOW), []);
    let without = Topology { compat: None, ..topology.clone() };
    insta::assert_snapshot!(text(&topology, &Snapshot::of(&without)));
    let unbound = after(&topology, |observed| {
        observed
            .objects
            .bindings
            .retain(|it| !it.destination.contains(".compat") || it.mark_of().is_some());
    });
    insta::assert_snapshot!(unbound);
}

/// A timeout may be called `dlx`: that its queue is replaced says nothing about the exchange.
#[test]
fn an_exchange_that_has_the_name_of_a_replaced_queue_is_looked_at() {
    let text = "name = \"orders\"\ndelay.strategy = \"ladder\"\ndelay.ladder.max = \"9s\"\n\
                timeout = [{ name = \"dlx\", after = \"1s\" }]\n";
    let topology = Topology::parse(text).expect("a good file");
    let mut observed = Snapshot::of(&topology);
    let queue = observed.objects.queues.get_mut("orders.dlx").expect("there");
    queue.arguments.insert("x-max-length".to_owned(), Argument::Integer(10));
    observed.objects.bindings.retain(|it| it.to_queue || it.destination != "orders.dlx");
    let found = findings(&topology, &observed, &BTreeMap::new(), NOW);
    let rules: Vec<&str> = found.iter().map(|it| it.rule).collect();
    assert_eq!(rules, ["changed-queue", "missing-binding"], "{found:?}");
}
