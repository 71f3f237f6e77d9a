//! The fingerprint of a plan, and its JSON.

use overdue::internals::{
    objects::{Argument, Binding},
    plan::{
        BrokerIdentity, Change, Fingerprint, Plan, PlanJson, Reason, Snapshot, Step, diff, schema,
    },
    topology::Topology,
};

use crate::{broker_model::plan, plan_table::file};

const SHORTER: &str = "30m → 20m";

/// The plan for the small topology with another level, and this many messages in the old one.
fn shorter(messages: u64) -> Plan {
    let mut broker = Snapshot::of(&file(""));
    broker.messages.insert("shop.delay.30m".to_owned(), messages);
    plan(&file(SHORTER), &broker)
}

/// Tickets and pipelines contain the fingerprint, so it must not depend on version and platform.
#[test]
fn it_is_this_one() {
    assert_eq!(Plan::default().fingerprint().to_string(), "e3b0c44298fc");
    insta::assert_snapshot!(shorter(0).fingerprint(), @"d397f7232e6d");
}

#[test]
fn a_queue_that_drains_and_another_order_do_not_change_it() {
    let [full, empty] = [7, 0].map(shorter);
    assert_ne!(full.steps, empty.steps);
    assert_eq!(full.fingerprint(), empty.fingerprint());
    let reversed = Plan { steps: empty.steps.iter().rev().cloned().collect(), ..empty.clone() };
    assert_eq!(reversed.fingerprint(), empty.fingerprint());
}

#[test]
fn every_name_and_argument_changes_it() {
    let plan = shorter(0);
    let mut seen = vec![plan.fingerprint()];
    let mut is_new = |plan: &Plan, what: &dyn std::fmt::Display| {
        let fingerprint = plan.fingerprint();
        assert!(!seen.contains(&fingerprint), "{what}");
        seen.push(fingerprint);
    };
    let other = |binding: &Binding, part: usize| {
        let mut binding = binding.clone();
        let Binding { source, destination, routing_key, .. } = &mut binding;
        [source, destination, routing_key][part].push('x');
        binding
    };
    for (nth, Step { change, .. }) in plan.steps.iter().enumerate() {
        let changed = match change {
            Change::CreateQueue(queue) => {
                let arguments = queue.arguments.keys().map(|key| {
                    let mut queue = queue.clone();
                    queue.arguments.insert(key.clone(), Argument::Integer(77));
                    queue
                });
                let mut named = queue.clone();
                named.name.push('x');
                arguments.chain([named]).map(Change::CreateQueue).collect()
            }
            Change::Bind(it) => (0..3).map(|part| Change::Bind(other(it, part))).collect(),
            Change::DeleteQueue { lost, .. } => {
                vec![Change::DeleteQueue { queue: "shop.delay.40m".to_owned(), lost: *lost }]
            }
            // The step about the retired queue contains all of it.
            _ => Vec::new(),
        };
        for change in changed {
            let mut plan = plan.clone();
            plan.steps[nth].change = change;
            is_new(&plan, &plan.steps[nth]);
        }
        let mut less = plan.clone();
        less.steps.remove(nth);
        if !matches!(change, Change::Unbind(_)) {
            is_new(&less, &format!("without {change}"));
        }
    }
}

/// Consent to lost messages names the queue, whatever their number is later.
#[test]
fn a_queue_that_is_given_up_is_another_thing_than_one_that_is_empty() {
    let without = file(r#", { name = "unshipped", after = "30m" } → "#);
    let planned = |messages: u64, discard: &str| {
        let mut broker = Snapshot::of(&file(""));
        broker.messages.insert("shop.unshipped".to_owned(), messages);
        diff(&without, &broker, &[discard.to_owned()].into()).fingerprint()
    };
    let discarded = planned(7, "shop.unshipped");
    assert_eq!(
        [507, 0].map(|it| planned(it, "shop.unshipped")),
        [&discarded, &discarded].map(Clone::clone)
    );
    assert_ne!(planned(0, ""), discarded);
}

#[test]
fn another_plan_is_refused_in_one_line() {
    let asked: Fingerprint = "91CE3F2A00AA".parse().expect("a fingerprint");
    insta::assert_snapshot!(shorter(7).checked(Some(&asked)).expect_err("another"), @"nothing was changed: the plan is now d397f7232e6d and not 91ce3f2a00aa: 1 queue to create, 2 bindings to add, 2 bindings to take away; 1 retired queue is draining; no message is lost; it begins with `+ queue shop.delay.20m (classic, x-dead-letter-exchange=shop.dlx, x-message-ttl=1198000)`");
    insta::assert_snapshot!(Plan::default().checked(Some(&asked)).expect_err("another"), @"nothing was changed: the plan is now e3b0c44298fc and not 91ce3f2a00aa: no change: the broker has this topology");
    let same = shorter(7).fingerprint();
    assert_eq!(shorter(0).checked(Some(&same)), Ok(shorter(0)));
    assert_eq!(shorter(0).checked(None), Ok(shorter(0)));
    for text in ["", "plan.json", "91ce3f2a00a", "91ce3f2a00aab", "91ce3f2a00ag"] {
        text.parse::<Fingerprint>().expect_err(text);
    }
}

#[test]
fn the_schema_that_is_committed_is_the_one_of_the_types() {
    let generated = serde_json::to_string_pretty(&schema()).expect("JSON") + "\n";
    assert!(
        generated == include_str!("../../docs/plan.schema.json"),
        "docs/plan.schema.json is not as generated: overdue generate schema plan > docs/plan.schema.json"
    );
}

/// The JSON for programs: a change that does more than add needs a new version of the format.
#[test]
fn the_json_of_a_plan() {
    let after = file(r#"30m → 20m; quorum; , { name = "unshipped", after = "20m" } → "#);
    let mut broker = Snapshot::of(&file(""));
    broker.messages.insert("shop.delay.30m".to_owned(), 7);
    broker.messages.insert("shop.unshipped".to_owned(), 3);
    broker.messages.remove("shop.delay.1s");
    let planned = |topology: &Topology, discard: &str| {
        let place = BrokerIdentity { cluster: "rabbit".to_owned(), virtual_host: "/".to_owned() };
        PlanJson::new(topology, place, diff(topology, &broker, &[discard.to_owned()].into()))
    };
    let planned_json = planned(&after, "shop.unshipped");
    assert!(planned_json.plan.steps.iter().any(|it| it.reason == Reason::Discarded));
    insta::assert_snapshot!(serde_json::to_string_pretty(&planned_json).expect("JSON"));
    let refused = planned(&after, "shop.unpaid").plan.refusals;
    let refused = serde_json::to_string_pretty(&refused).expect("JSON");
    insta::assert_snapshot!("the_json_of_refusals", refused);
}
