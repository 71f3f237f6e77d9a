//! A saved plan: carried out as it is, or not at all.

use overdue::internals::{
    objects::Binding,
    plan::{BrokerIdentity, PlanFileError, SavedPlan, Snapshot, StalePlan, VERSION, diff, schema},
    topology::Topology,
};
use proptest::{collection, prelude::*, sample::Index};

use crate::{broker_model::plan, generate};

fn topology() -> Topology {
    Topology::parse(include_str!("../../topology.toml")).expect("the repository's file is good")
}

fn identity() -> BrokerIdentity {
    BrokerIdentity { cluster: "rabbit@one".to_owned(), virtual_host: "shop".to_owned() }
}

fn saved(topology: &Topology, broker: &Snapshot) -> SavedPlan {
    SavedPlan::new(topology, identity(), plan(topology, broker), broker)
}

proptest! {
    #[test]
    fn it_is_read_as_it_was_written((before, after) in generate::change()) {
        let saved = saved(&after.read(), &Snapshot::of(&before.read()));
        let text = serde_json::to_string_pretty(&saved).expect("JSON");
        let read = SavedPlan::parse(&text).expect("what was written");
        prop_assert_eq!(&read, &saved);
        prop_assert_eq!(serde_json::to_string_pretty(&read).expect("JSON"), text);
    }

    #[test]
    fn it_holds_while_only_counts_and_foreign_objects_change(
        (before, after) in generate::change(),
        counts in collection::vec(0_u64..9, 1..5),
    ) {
        let (before, after) = (before.read(), after.read());
        let mut broker = Snapshot::of(&before);
        let saved = saved(&after, &broker);
        let queues: Vec<String> = broker.objects.queues.keys().cloned().collect();
        broker.messages = queues.into_iter().zip(counts.into_iter().cycle()).collect();
        let mut theirs = Snapshot::of(&before);
        let mut queue = theirs.objects.queues.pop_first().expect("queues").1;
        queue.name = "theirs".to_owned();
        broker.objects.queues.insert("theirs".to_owned(), queue);
        broker.objects.bindings.insert(binding("", &after.parked_queue()));
        broker.objects.bindings.insert(binding(&after.events_exchange(), "theirs"));
        let checked = saved.check(&after, &identity(), &broker);
        let mut removed = before.timeouts.iter().filter(|it| after.timeout(&it.name).is_none());
        if removed.all(|it| broker.messages_in(&before.business_queue(it)) == Some(0)) {
            prop_assert_eq!(checked, Ok(()));
        } else {
            // A removed timeout's queue was empty when the plan was made; one that the plugin's exchange leads to is not
            // deleted before that.
            let stays = broker.objects.exchanges.contains_key(&before.delayed_exchange());
            let fuller = matches!(checked, Err(StalePlan::Fuller { lost: 0, .. }));
            prop_assert!(fuller || stays && checked == Ok(()), "{checked:?}");
        }
    }

    #[test]
    fn it_is_refused_when_any_object_of_ours_is_gone(topology in generate::topology(), which in any::<Index>()) {
        let broker = Snapshot::of(&topology);
        let saved = saved(&topology, &broker);
        let objects = &broker.objects;
        let count = objects.exchanges.len() + objects.queues.len() + objects.bindings.len();
        let mut now = broker.clone();
        let nth = which.index(count);
        let (exchanges, queues) = (objects.exchanges.len(), objects.queues.len());
        if nth < exchanges {
            now.objects.exchanges.remove(objects.exchanges.keys().nth(nth).expect("in range"));
        } else if nth < exchanges + queues {
            now.objects.queues.remove(objects.queues.keys().nth(nth - exchanges).expect("in range"));
        } else {
            let binding = objects.bindings.iter().nth(nth - exchanges - queues).expect("in range");
            now.objects.bindings.remove(binding);
        }
        prop_assert!(matches!(saved.check(&topology, &identity(), &now), Err(StalePlan::Changed(_))));
    }
}

fn binding(source: &str, destination: &str) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue: true,
        routing_key: "#".to_owned(),
        arguments: [].into(),
    }
}

/// What changed, and how it is named.
#[test]
fn the_first_change_is_named() {
    let topology = topology();
    let broker = Snapshot::of(&topology);
    let saved = saved(&topology, &broker);
    let named = |change: &dyn Fn(&mut Snapshot)| {
        let mut now = broker.clone();
        change(&mut now);
        saved.check(&topology, &identity(), &now).expect_err("it changed").to_string()
    };
    let texts = [
        named(&|now| {
            now.objects.exchanges.get_mut("orders.in").expect("there").kind = "direct".to_owned();
        }),
        named(&|now| {
            now.objects.queues.get_mut("orders.unpaid").expect("there").durable = false;
        }),
        named(&|now| {
            let mut queue = now.objects.queues["orders.unpaid"].clone();
            queue.name = "orders.unpaid.2".to_owned();
            now.objects.queues.insert(queue.name.clone(), queue);
        }),
        named(&|now| {
            now.objects.bindings.insert(binding("orders.in", "orders.parked"));
        }),
        // It would keep a retired queue from being deleted.
        named(&|now| {
            now.objects.bindings.insert(binding("shop", "orders.parked"));
        }),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    the broker has changed since the plan was made (exchange orders.in); make it again with `overdue plan --save`
    the broker has changed since the plan was made (queue orders.unpaid); make it again with `overdue plan --save`
    the broker has changed since the plan was made (queue orders.unpaid.2); make it again with `overdue plan --save`
    the broker has changed since the plan was made (binding orders.in -> orders.parked); make it again with `overdue plan --save`
    the broker has changed since the plan was made (binding shop -> orders.parked); make it again with `overdue plan --save`
    ");
}

#[test]
fn another_version_or_topology_is_refused() {
    let topology = topology();
    let broker = Snapshot::of(&topology);
    let mut plan = saved(&topology, &broker);
    assert_eq!(plan.check(&topology, &identity(), &broker), Ok(()));
    let other = Topology { name: "bookings".to_owned(), ..topology.clone() };
    let refused = plan.check(&other, &identity(), &broker);
    assert_eq!(
        refused,
        Err(StalePlan::Topology { plan: "orders".to_owned(), file: "bookings".to_owned() })
    );
    plan.version = VERSION + 1;
    assert_eq!(plan.check(&topology, &identity(), &broker), Err(StalePlan::Version(VERSION + 1)));
}

/// Two brokers can have the same objects, and other messages.
#[test]
fn it_is_refused_on_another_broker() {
    let topology = topology();
    let broker = Snapshot::of(&topology);
    let saved = saved(&topology, &broker);
    for (other, said) in [
        (
            BrokerIdentity { virtual_host: "test".to_owned(), ..identity() },
            "this is virtual host `test` of cluster `rabbit@one`",
        ),
        (
            BrokerIdentity { cluster: "rabbit@two".to_owned(), ..identity() },
            "this is virtual host `shop` of cluster `rabbit@two`",
        ),
    ] {
        let refused =
            saved.check(&topology, &other, &broker).expect_err("another broker").to_string();
        assert_eq!(
            refused,
            format!("the plan is for virtual host `shop` of cluster `rabbit@one`, {said}")
        );
    }
}

/// What is given up was agreed to; what came in since was not.
#[test]
fn it_is_refused_when_more_would_be_lost_than_was_said() {
    let text = include_str!("../../topology.toml");
    let after = Topology::parse(text).expect("a good file");
    let before = format!("{text}\n[[timeout]]\nname = \"gone\"\nafter = \"30m\"\n");
    let before = Topology::parse(&before).expect("a good file");
    let name = "orders.gone".to_owned();
    let holding = |messages| {
        let mut broker = Snapshot::of(&before);
        broker.messages.insert(name.clone(), messages);
        broker
    };
    let discard = [name.clone()].into();
    let saved =
        SavedPlan::new(&after, identity(), diff(&after, &holding(7), &discard), &holding(7));
    assert_eq!(saved.plan.lost(), 7, "{}", saved.plan);
    assert_eq!(saved.check(&after, &identity(), &holding(7)), Ok(()));
    assert_eq!(saved.check(&after, &identity(), &holding(0)), Ok(()));
    let refused =
        saved.check(&after, &identity(), &holding(507)).expect_err("500 more").to_string();
    assert_eq!(
        refused,
        format!(
            "queue {name} holds 507 messages by now, and the plan gives up 7 messages; make it again with `overdue plan --save`"
        )
    );
    // Empty when it was planned: not to be unbound with something in it.
    let saved = self::saved(&after, &holding(0));
    let refused = saved.check(&after, &identity(), &holding(1)).expect_err("1 came in").to_string();
    assert!(refused.contains("holds 1 message by now"), "{refused}");
}

/// The first version had other fields; what it said is not guessed.
#[test]
fn a_plan_of_the_first_version_is_refused_with_what_to_do() {
    let first = r#"{ "version": 1, "topology": "orders", "place": {}, "plan": { "steps": [] } }"#;
    let error = SavedPlan::parse(first).expect_err("another version");
    assert!(matches!(error, PlanFileError::Version(StalePlan::Version(1))), "{error:?}");
    insta::assert_snapshot!(error, @"the plan has version 1, this program writes 2; make it again with `overdue plan --save`");
    for text in ["", "{}", "[]", "no plan", r#"{ "version": 2 }"#] {
        let error = SavedPlan::parse(text).expect_err("not a plan");
        assert!(matches!(error, PlanFileError::NotAPlan(_)), "{text}: {error:?}");
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

/// What a program reads: where this changes and is not only longer, the format needs another version.
#[test]
fn the_json_of_a_plan() {
    let before = r#"name = "shop"
delay.levels = ["1s", "30m"]
queues.type = "classic"
timeout = [{ name = "unpaid", after = "30m" }, { name = "unshipped", after = "30m" }]
"#;
    let after = before
        .replace("30m", "20m")
        .replace("classic", "quorum")
        .replace(r#", { name = "unshipped", after = "20m" }"#, "");
    let [before, after] = [before, &after].map(|text| Topology::parse(text).expect("a good file"));
    let mut broker = Snapshot::of(&before);
    broker.messages.insert("shop.delay.30m".to_owned(), 7);
    broker.messages.insert("shop.unshipped".to_owned(), 3);
    broker.messages.remove("shop.delay.1s");
    let planned = |discard: &str| {
        let discard = [discard.to_owned()].into();
        SavedPlan::new(&after, identity(), diff(&after, &broker, &discard), &broker)
    };
    let mut json = serde_json::to_value(planned("shop.unshipped")).expect("JSON");
    // One of each is enough.
    for objects in ["desired", "observed"] {
        for named in ["exchanges", "queues"] {
            let mut seen = false;
            let objects = json[objects][named].as_object_mut().expect("by name");
            objects.retain(|_, _| !std::mem::replace(&mut seen, true));
        }
        json[objects]["bindings"].as_array_mut().expect("a list").truncate(1);
    }
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).expect("JSON"));
    let refused = serde_json::to_value(planned("shop.unpaid").plan.refusals).expect("JSON");
    let refused = serde_json::to_string_pretty(&refused).expect("JSON");
    insta::assert_snapshot!("the_json_of_refusals", refused);
}
