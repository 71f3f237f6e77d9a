//! A saved plan: carried out as it is, or not at all.

use overdue::{
    objects::Binding,
    plan::{
        diff::diff,
        saved::{Place, SavedPlan, StalePlan, VERSION},
        snapshot::Snapshot,
    },
    topology::Topology,
};
use proptest::{collection, prelude::*, sample::Index};

use crate::{broker_model::plan, generate};

fn topology() -> Topology {
    Topology::parse(include_str!("../../topology.toml")).expect("the repository's file is good")
}

fn place() -> Place {
    Place { cluster: "rabbit@one".to_owned(), virtual_host: "shop".to_owned() }
}

fn saved(topology: &Topology, broker: &Snapshot) -> SavedPlan {
    SavedPlan::new(topology, place(), plan(topology, broker), broker)
}

proptest! {
    #[test]
    fn it_is_read_as_it_was_written((before, after) in generate::change()) {
        let saved = saved(&after.read(), &Snapshot::of(&before.read()));
        let text = serde_json::to_string_pretty(&saved).expect("JSON");
        let read: SavedPlan = serde_json::from_str(&text).expect("what was written");
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
        let queue = theirs.objects.queues.pop_first().expect("queues").1;
        broker.objects.queues.insert("theirs".to_owned(), queue);
        broker.objects.bindings.insert(binding("", &after.parked_queue()));
        broker.objects.bindings.insert(binding(&after.events_exchange(), "theirs"));
        let checked = saved.check(&after, &place(), &broker);
        if plan(&after, &broker).refusals.is_empty() {
            prop_assert_eq!(checked, Ok(()));
        } else {
            // A removed timeout's queue was empty when the plan was made.
            prop_assert!(matches!(checked, Err(StalePlan::Fuller { lost: 0, .. })), "{checked:?}");
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
        prop_assert!(matches!(saved.check(&topology, &place(), &now), Err(StalePlan::Changed(_))));
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
        saved.check(&topology, &place(), &now).expect_err("it changed").to_string()
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
    the broker has changed since the plan was made (exchange orders.in); make it again with `overdue plan --out`
    the broker has changed since the plan was made (queue orders.unpaid); make it again with `overdue plan --out`
    the broker has changed since the plan was made (queue orders.unpaid.2); make it again with `overdue plan --out`
    the broker has changed since the plan was made (binding orders.in -> orders.parked); make it again with `overdue plan --out`
    the broker has changed since the plan was made (binding shop -> orders.parked); make it again with `overdue plan --out`
    ");
}

#[test]
fn another_version_or_topology_is_refused() {
    let topology = topology();
    let broker = Snapshot::of(&topology);
    let mut plan = saved(&topology, &broker);
    assert_eq!(plan.check(&topology, &place(), &broker), Ok(()));
    let other = Topology { name: "bookings".to_owned(), ..topology.clone() };
    let refused = plan.check(&other, &place(), &broker);
    assert_eq!(
        refused,
        Err(StalePlan::Topology { plan: "orders".to_owned(), file: "bookings".to_owned() })
    );
    plan.version = VERSION + 1;
    assert_eq!(plan.check(&topology, &place(), &broker), Err(StalePlan::Version(VERSION + 1)));
}

/// Two brokers can have the same objects, and other messages.
#[test]
fn it_is_refused_on_another_broker() {
    let topology = topology();
    let broker = Snapshot::of(&topology);
    let saved = saved(&topology, &broker);
    for (other, said) in [
        (
            Place { virtual_host: "test".to_owned(), ..place() },
            "this is virtual host `test` of cluster `rabbit@one`",
        ),
        (
            Place { cluster: "rabbit@two".to_owned(), ..place() },
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
    let saved = SavedPlan::new(&after, place(), diff(&after, &holding(7), &discard), &holding(7));
    assert_eq!(saved.plan.lost(), 7, "{}", saved.plan);
    assert_eq!(saved.check(&after, &place(), &holding(7)), Ok(()));
    assert_eq!(saved.check(&after, &place(), &holding(0)), Ok(()));
    let refused = saved.check(&after, &place(), &holding(507)).expect_err("500 more").to_string();
    assert_eq!(
        refused,
        format!(
            "queue {name} holds 507 messages by now, and the plan gives up 7 messages; make it again with `overdue plan --out`"
        )
    );
    // Empty when it was planned: not to be unbound with something in it.
    let saved = self::saved(&after, &holding(0));
    let refused = saved.check(&after, &place(), &holding(1)).expect_err("1 came in").to_string();
    assert!(refused.contains("holds 1 message by now"), "{refused}");
}
