//! A saved plan: carried out if it is what is to be done now, or not at all. It adds nothing.

use overdue::internals::{
    objects::Binding,
    plan::{
        BrokerIdentity, Change, Plan, PlanFileError, Reason, SavedPlan, Snapshot, StalePlan, Step,
        VERSION, diff, schema,
    },
    topology::Topology,
};
use proptest::{collection, prelude::*};

use crate::{broker_model::plan, generate};

fn topology() -> Topology {
    Topology::parse(include_str!("../../topology.toml")).expect("the repository's file is good")
}

fn identity() -> BrokerIdentity {
    BrokerIdentity { cluster: "rabbit@one".to_owned(), virtual_host: "shop".to_owned() }
}

fn saved(topology: &Topology, broker: &Snapshot) -> SavedPlan {
    SavedPlan::new(topology, identity(), plan(topology, broker))
}

/// What `apply FILE` would carry out on this broker.
fn check(saved: &SavedPlan, topology: &Topology, now: &Snapshot) -> Result<Plan, StalePlan> {
    saved.check(topology, &identity(), plan(topology, now))
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
        let now = plan(&after, &broker);
        let checked = saved.check(&after, &identity(), now.clone());
        let deletes = |change: &&Change| matches!(change, Change::DeleteQueue { .. } | Change::DeleteExchange { .. });
        if now.changes().filter(|it| !deletes(it)).eq(saved.plan.changes().filter(|it| !deletes(it))) {
            prop_assert_eq!(checked.map(|it| it.steps), Ok(now.steps));
        } else {
            // A timeout or a ladder that was to go at once, and goes in stages, or is refused.
            let ladder = before.strategy.ladder().is_some();
            let goes = before.timeouts.iter().any(|it| after.timeout(&it.name).is_none());
            let differs = matches!(checked, Err(StalePlan::Differs { .. }));
            prop_assert!((goes || ladder) && differs, "{checked:?}\n{now}\n{}", saved.plan);
        }
    }
}

fn with_a_timeout_that_is_gone() -> (Topology, Topology) {
    let text = include_str!("../../topology.toml");
    let before = format!("{text}\n[[timeout]]\nname = \"gone\"\nafter = \"30m\"\n");
    (Topology::parse(&before).expect("a good file"), topology())
}

fn binding(source: &str, destination: &str) -> Binding {
    Binding {
        source: source.to_owned(),
        destination: destination.to_owned(),
        to_queue: true,
        routing_key: "#".to_owned(),
        ..Binding::default()
    }
}

/// With a level 30m, and without it.
fn without_a_level() -> (Topology, Topology) {
    let text = r#"name = "orders"
delay.levels = ["1m", "30m"]
timeout = [{ name = "unpaid", after = "1m" }]
"#;
    let after = text.replace(r#", "30m""#, "");
    let [before, after] = [text, &after].map(|text| Topology::parse(text).expect("a good file"));
    (before, after)
}

/// Which step, and the next command.
#[test]
fn the_first_step_that_differs_is_named() {
    let (before, after) = without_a_level();
    let broker = Snapshot::of(&before);
    let told = |topology, change: &dyn Fn(&mut Snapshot)| {
        let mut now = broker.clone();
        change(&mut now);
        check(&saved(&after, &broker), topology, &now).expect_err("it changed").to_string()
    };
    let texts = [
        told(&before, &|_| {}),
        told(&after, &|now| drop(now.objects.exchanges.remove("orders.in"))),
        told(&after, &|now| drop(now.objects.queues.remove("orders.unpaid"))),
    ];
    insta::assert_snapshot!(texts.join("\n"), @r"
    the plan made now is not the saved one: its step 1 is missing, and in the saved one it is `- binding orders.again -> orders.delay.30m (30m.*)`. Nothing was changed; look at `overdue plan`, and save it again with `overdue plan --save`
    the plan made now is not the saved one: its step 1 is `+ exchange orders.in (topic, alternate-exchange=orders.park)`, and in the saved one it is `- binding orders.again -> orders.delay.30m (30m.*)`. Nothing was changed; look at `overdue plan`, and save it again with `overdue plan --save`
    the plan made now is not the saved one: its step 1 is `+ queue orders.unpaid (quorum, x-dead-letter-exchange=orders.park, x-dead-letter-strategy=at-least-once, x-delivery-limit=100, x-overflow=reject-publish)`, and in the saved one it is `- binding orders.again -> orders.delay.30m (30m.*)`. Nothing was changed; look at `overdue plan`, and save it again with `overdue plan --save`
    ");
}

/// What is deleted because it is empty stays if it is not, or was not: a queue, or an exchange of the delayed message plugin.
#[test]
fn what_waits_stays_for_a_later_plan() {
    let (before, after) = without_a_level();
    let plugin = "name = \"orders\"\ndelay.strategy = \"delayed-exchange\"\n\
                  timeout = [{ name = \"unpaid\", after = \"1m\" }]\n";
    let plugin = Topology::parse(plugin).expect("a good file");
    let mut brokers = [Snapshot::of(&before), Snapshot::of(&plugin)].map(|it| [it.clone(), it]);
    brokers[0][1].messages.insert("orders.delay.30m".to_owned(), 7);
    brokers[1][1].delayed.values_mut().for_each(|held| *held = 7);
    for [empty, full] in &brokers {
        let all = plan(&after, empty);
        let deletes = |it: &&Step| {
            matches!(it.change, Change::DeleteQueue { .. } | Change::DeleteExchange { .. })
        };
        let (goes, rest): (Vec<&Step>, Vec<&Step>) = all.steps.iter().partition(deletes);
        assert_eq!(goes.len(), 1, "{all}");
        let check = |then, now| check(&saved(&after, then), &after, now).expect("it holds");
        assert_eq!(check(empty, empty).steps, all.steps);
        for (then, now) in [(empty, full), (full, empty)] {
            let plan = check(then, now);
            assert!(plan.changes().eq(rest.iter().map(|step| &step.change)), "{plan}");
        }
    }
}

/// It was to be removed at once, because the levels were empty.
#[test]
fn a_timeout_is_not_removed_at_once_if_the_levels_have_filled() {
    let (before, after) = with_a_timeout_that_is_gone();
    let broker = Snapshot::of(&before);
    let saved = saved(&after, &broker);
    let mut now = broker.clone();
    now.messages.insert("orders.delay.30m".to_owned(), 40);
    let refused = check(&saved, &after, &now).expect_err("another plan").to_string();
    insta::assert_snapshot!(refused, @"the plan made now is not the saved one: its step 1 is `~ queue orders.gone (leaves)`, and in the saved one it is `- binding orders.dlx -> orders.gone (#.gone)`. Nothing was changed; look at `overdue plan`, and save it again with `overdue plan --save`");
}

#[test]
fn another_version_or_topology_is_refused() {
    let topology = topology();
    let broker = Snapshot::of(&topology);
    let mut plan = saved(&topology, &broker);
    assert!(check(&plan, &topology, &broker).is_ok());
    let other = Topology { name: "bookings".to_owned(), ..topology.clone() };
    assert_eq!(
        check(&plan, &other, &broker),
        Err(StalePlan::Topology { plan: "orders".to_owned(), file: "bookings".to_owned() })
    );
    plan.version = VERSION + 1;
    assert_eq!(check(&plan, &topology, &broker), Err(StalePlan::Version(VERSION + 1)));
}

/// On one line, whatever the names have in them.
#[test]
fn a_plan_begins_with_where_it_is_carried_out() {
    let broker = BrokerIdentity { virtual_host: "a\nb".to_owned(), ..identity() };
    let heading = "topology `orders` in virtual host `a\\nb` of cluster `rabbit@one`";
    assert_eq!(broker.heading(&topology()), heading);
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
            "this is virtual host `shop` of cluster `rabbit@two`. A cluster without a name of its own has the one of the node that \
             answers: `rabbitmqctl set_cluster_name NAME` gives it one; then save the plan again",
        ),
    ] {
        let refused = saved
            .check(&topology, &other, plan(&topology, &broker))
            .expect_err("another broker")
            .to_string();
        assert_eq!(
            refused,
            format!("the plan is for virtual host `shop` of cluster `rabbit@one`, {said}")
        );
    }
}

/// What is given up was agreed to; what came in since was not.
#[test]
fn it_is_refused_when_more_would_be_lost_than_was_said() {
    let (before, after) = with_a_timeout_that_is_gone();
    let name = "orders.gone".to_owned();
    let holding = |messages| {
        let mut broker = Snapshot::of(&before);
        broker.messages.insert(name.clone(), messages);
        broker
    };
    let planned = |messages| diff(&after, &holding(messages), &[name.clone()].into());
    let saved = SavedPlan::new(&after, identity(), planned(7));
    assert_eq!(saved.plan.lost(), 7, "{}", saved.plan);
    for messages in [7, 5, 0] {
        let now = planned(messages);
        assert_eq!(saved.check(&after, &identity(), now.clone()), Ok(now));
    }
    let refused = saved.check(&after, &identity(), planned(507)).expect_err("500 more").to_string();
    // The file alone gives nothing up.
    let alone = check(&saved, &after, &holding(7)).expect_err("no consent").to_string();
    insta::assert_snapshot!([refused, alone].join("\n"), @r"
    the plan made now is not the saved one: its step 2 is `- queue orders.gone WITH 507 messages`, and in the saved one it is `- queue orders.gone WITH 7 messages`. Nothing was changed; look at `overdue plan`, and save it again with `overdue plan --save`
    the saved plan deletes queue orders.gone with its messages. Nothing was changed; agree to it here as well, with --discard orders.gone
    ");
    // Empty when it was planned: not to be unbound with something in it.
    let saved = self::saved(&after, &holding(0));
    check(&saved, &after, &holding(1)).expect_err("1 came in");
}

/// Splitmix64: the same mutations in every run.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut x = self.0;
        x = (x ^ (x >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        x = (x ^ (x >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        usize::try_from((x ^ (x >> 31)) % u64::try_from(bound).expect("64 bits")).expect("below")
    }
}

fn foreign_steps(broker: &Snapshot) -> Vec<Step> {
    let mut queue = broker.objects.queues["orders.unpaid"].clone();
    "payments".clone_into(&mut queue.name);
    let changes = [
        Change::DeleteQueue { queue: "payments".to_owned(), lost: 0 },
        Change::DeleteQueue { queue: "payments".to_owned(), lost: u64::MAX },
        Change::DeleteExchange { exchange: "shop".to_owned() },
        Change::Unbind(binding("shop", "payments")),
        Change::Bind(binding("orders.dlx", "payments")),
        Change::CreateQueue(queue),
        // The topology's own objects, and no step of this plan.
        Change::DeleteQueue { queue: "orders.unpaid".to_owned(), lost: u64::MAX },
        Change::DeleteExchange { exchange: "orders.in".to_owned() },
    ];
    changes.map(|change| Step { change, reason: Reason::Missing }).into()
}

/// Adds, alters, takes away, repeats, or exchanges steps.
fn mutated(plan: &mut Plan, foreign: &[Step], random: &mut Random) {
    for _ in 0..=random.below(2) {
        let at = random.below(plan.steps.len() + 1);
        let other = random.below(plan.steps.len().max(1));
        match random.below(5) {
            0 => plan.steps.insert(at, foreign[random.below(foreign.len())].clone()),
            1 if at < plan.steps.len() => drop(plan.steps.remove(at)),
            2 if at < plan.steps.len() => plan.steps.insert(other, plan.steps[at].clone()),
            3 if at < plan.steps.len() => plan.steps.swap(at, other),
            _ => match plan.steps.get_mut(at).map(|step| &mut step.change) {
                Some(Change::DeleteQueue { queue, lost }) => {
                    *lost = lost.wrapping_sub(1);
                    queue.truncate(queue.len() - random.below(2));
                }
                Some(Change::Unbind(binding) | Change::Bind(binding) | Change::Leave(binding)) => {
                    binding.routing_key.push('x');
                }
                Some(Change::CreateQueue(queue)) => queue.durable ^= true,
                Some(Change::CreateExchange(exchange)) => exchange.kind.push('x'),
                Some(Change::DeleteExchange { exchange }) => exchange.push('x'),
                None => {}
            },
        }
    }
}

/// Whatever the file says: it is refused, or what is done was planned from topology file and broker, in its order and
/// without a gap but for queues that stay.
#[test]
fn a_hundred_thousand_forged_files_do_nothing_that_is_not_planned() {
    let (before, after) = without_a_level();
    let mut broker = Snapshot::of(&before);
    broker.objects.queues.remove("orders.parked");
    broker.objects.exchanges.remove("orders.events");
    let foreign = foreign_steps(&broker);
    let saved = saved(&after, &broker);
    let now = plan(&after, &broker);
    assert!(now.steps.len() > 3, "{now}");
    let text = serde_json::to_string(&saved).expect("JSON");
    let (mut random, mut refused, mut read) = (Random(1), 0, 0);
    for nth in 0..100_000 {
        let forged = if nth % 20 == 0 {
            let mut bytes = text.clone().into_bytes();
            let at = random.below(bytes.len());
            bytes[at] ^= 1 << random.below(8);
            let forged = String::from_utf8(bytes).ok();
            let Some(forged) = forged.and_then(|text| SavedPlan::parse(&text).ok()) else {
                continue;
            };
            forged
        } else {
            let mut forged = saved.clone();
            mutated(&mut forged.plan, &foreign, &mut random);
            forged
        };
        read += 1;
        let Ok(done) = forged.check(&after, &identity(), now.clone()) else {
            refused += 1;
            continue;
        };
        let mut planned = now.steps.iter();
        assert!(done.steps.iter().all(|step| planned.any(|it| it == step)), "{done}");
        let stays = |step: &&Step| matches!(step.change, Change::DeleteQueue { lost: 0, .. });
        assert!(
            now.steps.iter().filter(|it| !stays(it)).all(|it| done.steps.contains(it)),
            "{done}"
        );
        // It says no more than is done: a step of its own is not passed over.
        assert_eq!(forged.plan.steps.len(), done.steps.len(), "{done}\n{}", forged.plan);
    }
    assert!(read > 90_000 && refused > 50_000 && refused < read, "{refused} of {read} refused");
}

/// The first version had other fields; what it said is not guessed.
#[test]
fn a_plan_of_the_first_version_is_refused_with_what_to_do() {
    let first = r#"{ "version": 1, "topology": "orders", "place": {}, "plan": { "steps": [] } }"#;
    let error = SavedPlan::parse(first).expect_err("another version");
    assert!(matches!(error, PlanFileError::Version(StalePlan::Version(1))), "{error:?}");
    insta::assert_snapshot!(error, @"the plan has version 1, this program writes 3; make it again with `overdue plan --save`");
    for text in ["", "{}", "[]", "no plan", r#"{ "version": 3 }"#] {
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
        SavedPlan::new(&after, identity(), diff(&after, &broker, &discard))
    };
    let json = serde_json::to_value(planned("shop.unshipped")).expect("JSON");
    insta::assert_snapshot!(serde_json::to_string_pretty(&json).expect("JSON"));
    let refused = serde_json::to_value(planned("shop.unpaid").plan.refusals).expect("JSON");
    let refused = serde_json::to_string_pretty(&refused).expect("JSON");
    insta::assert_snapshot!("the_json_of_refusals", refused);
}
