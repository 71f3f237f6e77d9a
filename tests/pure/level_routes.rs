//! The levels that a broker routes to, and the replacements for missing ones.

use std::{fmt::Write, time::Duration};

use overdue::internals::{
    objects::{Binding, Objects},
    topology::{
        Topology,
        level_routes::{LevelRoutes, lose},
        route::Delay,
    },
};
use proptest::{prelude::*, sample::subsequence};

use crate::samples::{DELAYED, LADDER, WITHOUT_FINDINGS};

const LEVELS: [&str; 4] = ["5s", "30s", "5m", "30m"];

fn topology() -> Topology {
    Topology::parse(WITHOUT_FINDINGS).unwrap()
}

/// A broker where these levels are not bound.
fn broker(topology: &Topology, unbound: &[&str]) -> Objects {
    let mut objects = topology.objects();
    objects.bindings.retain(|binding| {
        binding.source != "orders.in"
            || !unbound.iter().any(|level| binding.routing_key == format!("{level}.*"))
    });
    objects
}

proptest! {
    #[test]
    fn what_is_not_bound_is_missing_and_the_best_of_the_others_takes_its_place(
        unbound in subsequence(LEVELS.to_vec(), 0..=4),
    ) {
        let topology = topology();
        let timeout = &topology.timeouts[0];
        let routes = LevelRoutes::of_objects(&topology, &broker(&topology, &unbound));
        let missing: Vec<String> = routes.missing().map(str::to_owned).collect();
        let mut expected: Vec<String> = unbound.iter().map(|level| format!("{level}.unpaid")).collect();
        expected.sort();
        prop_assert_eq!(missing, expected);
        // A waiting notice is neither lost nor sent to a missing level.
        let waits = routes.wait(&topology, timeout, Duration::from_secs(30));
        prop_assert_eq!(waits.is_err(), unbound.len() == 4);
        if let Ok(route) = waits {
            prop_assert!(routes.leads(&route));
            let level = route.routing_key.trim_end_matches(".unpaid");
            prop_assert!(!unbound.contains(&level));
        }
    }
}

proptest! {
    /// A requeued notice arrives no later than its deadline, unless every level is longer.
    #[test]
    fn a_notice_that_is_published_again_comes_out_at_its_deadline_or_before(
        topology in crate::generate::topology(), ms in 0..40 * 86_400_000_u64, short_ms in 0..20_000_u64,
    ) {
        let routes = LevelRoutes::default();
        let shortest = topology.levels.iter().map(|level| topology.lead.lets_go(level).as_duration()).min();
        for timeout in &topology.timeouts {
            for rest in [ms, short_ms, 0].map(Duration::from_millis) {
                let route = routes.until_due(&topology, timeout, rest).unwrap();
                prop_assert!(route.routing_key.ends_with(&timeout.name));
                let is_late = route.holds > rest;
                prop_assert!(!is_late || (rest > Duration::from_mins(10) && shortest > Some(rest)), "{route:?}");
            }
        }
    }
}

const COMPAT: &str = "\n[compat.x-delay]\nexchange = \"reminders\"\n";
const DIGITS: &str = "name = \"orders\"\n[delay]\nstrategy = \"ladder\"\nladder = { max = \"9s\" }\n\
                      [[timeout]]\nname = \"unpaid\"\nafter = \"3s\"\n";

/// A worker's view of each edited broker: the keys without a route, and other levels. Then whether the timeout has a queue and its usual
/// route has a target. Then the routes of a notice that must wait or is due soon.
#[test]
fn what_a_broker_routes_to() {
    let mut table = String::new();
    let mut row = |name: &str, file: &str, edit: &dyn Fn(&mut Objects)| {
        let topology = Topology::parse(file).unwrap();
        let mut objects = topology.objects();
        edit(&mut objects);
        let routes = LevelRoutes::of_objects(&topology, &objects);
        let timeout = &topology.timeouts[0];
        let missing: Vec<&str> = routes.missing().collect();
        let others: Vec<&str> = routes.others().collect();
        let usual = topology.route("unpaid", &Delay::Usual).unwrap();
        let (queue, leads) = (routes.has_queue("unpaid"), routes.leads(&usual));
        let of_timeouts = routes.missing_to_timeouts(&topology).len();
        writeln!(
            table,
            "# {name}\nmissing {missing:?}, {of_timeouts} of them of timeouts; others {others:?}"
        )
        .unwrap();
        let waits = [5, 30].map(|seconds| {
            let route = routes.wait(&topology, timeout, Duration::from_secs(seconds));
            route.map_or_else(|_| "nowhere".to_owned(), |route| route.routing_key)
        });
        // A level expires a quarter early; a worker keeps no message for more than 10 minutes.
        let due = [3_749, 3_750, 600_000, 600_001].map(|ms| {
            let route = routes.until_due(&topology, timeout, Duration::from_millis(ms));
            route.map_or_else(|_| "nowhere".to_owned(), |route| route.routing_key)
        });
        writeln!(
            table,
            "queue {queue}, usual {leads}; waits {}; due {}",
            waits.join(", "),
            due.join(", ")
        )
        .unwrap();
    };
    let unbind = |levels: &'static [&str]| {
        move |it: &mut Objects| {
            it.bindings.retain(|it| {
                it.source != "orders.in"
                    || !levels.iter().any(|level| it.routing_key == format!("{level}.*"))
            });
        }
    };
    row("all is there", WITHOUT_FINDINGS, &|_| ());
    for levels in [&["30s"][..], &["5s"], &["5s", "30s"], &["5s", "30s", "5m"]] {
        row(&format!("without {levels:?}"), WITHOUT_FINDINGS, &unbind(levels));
    }
    // Without the entry exchange the publish itself fails, with the reason.
    row("nothing is there", WITHOUT_FINDINGS, &|it| *it = Objects::default());
    let newer = |it: &mut Objects| {
        let newer = WITHOUT_FINDINGS.replace("\"5m\"", "\"6m\"");
        *it = Topology::parse(&newer).unwrap().objects();
    };
    row("a newer file", WITHOUT_FINDINGS, &newer);
    // Publishers do not use the exchange of requeued notices.
    row("a newer file, without its level at the entry", WITHOUT_FINDINGS, &|it| {
        newer(it);
        it.bindings.retain(|it| it.source != "orders.in" || it.routing_key != "6m.*");
    });
    let compat = format!("{WITHOUT_FINDINGS}{COMPAT}");
    row("an exchange that is taken over", &compat, &unbind(&["30s"]));
    // Places of a ladder may change: without them a worker does not try.
    row("a ladder of which nothing is there", LADDER, &|it| *it = Objects::default());
    row("a digit", DIGITS, &|_| ());
    // Workers have another exchange for it, which publishers cannot use.
    row("a digit that only workers reach", DIGITS, &|it| {
        let topology = Topology::parse(DIGITS).unwrap();
        let sent = topology.route("unpaid", &Delay::Usual).unwrap();
        it.bindings.retain(|it| it.source != sent.exchange || it.destination != sent.queues[0]);
    });
    // The plugin's exchange delays any message, and routes it when it is due.
    row("the plugin's exchange", DELAYED, &|_| ());
    row("the plugin's exchange, without a binding", DELAYED, &|it| {
        due_to(it, "orders.delayed", &[]);
    });
    row("the plugin's exchange, to the parking lot", DELAYED, &|it| {
        due_to(it, "orders.delayed", &["orders.parked"]);
    });
    insta::assert_snapshot!(table);
}

/// Binds exactly these queues to the due messages of `unpaid`.
fn due_to(objects: &mut Objects, exchange: &str, queues: &[&str]) {
    let is_due = |it: &Binding| it.source == exchange && it.routing_key == "#.unpaid";
    let due = objects.bindings.iter().find(|it| is_due(it)).unwrap().clone();
    objects.bindings.retain(|it| !is_due(it));
    let bound =
        queues.iter().map(|queue| Binding { destination: (*queue).to_owned(), ..due.clone() });
    objects.bindings.extend(bound);
}

#[test]
fn a_route_whose_message_came_back_leads_nowhere() {
    for topology in [topology(), Topology::parse(LADDER).unwrap()] {
        let sent = topology.route("unpaid", &Delay::Usual).unwrap();
        let mut routes = LevelRoutes::default();
        assert!(routes.leads(&sent));
        lose(&mut routes, &sent);
        assert!(!routes.leads(&sent));
        assert!(routes.leads(&topology.route("unpaid", &Delay::level("5s")).unwrap()));
    }
}

/// A timeout may be named `delay`; its queues, generations, shards and subscribers are not levels.
#[test]
fn only_a_delay_queue_of_the_topology_is_a_level() {
    let topology = topology();
    for (queue, is_level) in [
        ("orders.delay.7m", true),
        ("orders.delay.7m.2", true),
        ("orders.delay.2", false),
        ("orders.delay.shard-0", false),
        ("orders.delay.shard-0.2", false),
        ("returns.delay.7m", false),
        ("listener", false),
    ] {
        let mut objects = broker(&topology, &["30m"]);
        let bound = |source: &str, key: &str| Binding {
            source: source.to_owned(),
            destination: queue.to_owned(),
            to_queue: true,
            routing_key: key.to_owned(),
            arguments: std::collections::BTreeMap::new(),
        };
        objects.bindings.insert(bound("orders.in", "30m.*"));
        let routes = LevelRoutes::of_objects(&topology, &objects);
        assert_eq!(routes.missing().next().is_none(), is_level, "{queue}");
        objects.bindings.insert(bound("orders.in", "7m.*"));
        let routes = LevelRoutes::of_objects(&topology, &objects);
        assert_eq!(routes.others().next().is_some(), is_level, "{queue}");
    }
}

/// A queue of the timeout counts, in any generation or as shards; queues of subscribers and of timeouts with longer names do not.
#[test]
fn a_timeout_has_a_queue_where_one_of_its_own_gets_what_is_due() {
    let topology = topology();
    let sharded = WITHOUT_FINDINGS.replace("name = \"unpaid\"", "name = \"unpaid\"\nshards = 2");
    let sharded = Topology::parse(&sharded).unwrap();
    let has = |objects: &Objects| LevelRoutes::of_objects(&topology, objects).has_queue("unpaid");
    assert!(has(&topology.objects()) && has(&sharded.objects()));
    assert!(LevelRoutes::default().has_queue("unpaid"), "it is not known");
    for (queue, is_its) in [
        ("orders.unpaid", true),
        ("orders.unpaid.2", true),
        ("orders.unpaid.shard-1.2", true),
        ("orders.unpaid-too", false),
        ("orders.unpaid.audit", false),
        ("audit", false),
        ("orders.parked", false),
    ] {
        let mut objects = topology.objects();
        due_to(&mut objects, "orders.dlx", &[queue]);
        assert_eq!(has(&objects), is_its, "{queue}");
    }
    for (of, source) in [(&topology, "orders.dlx"), (&sharded, "orders.unpaid.shards")] {
        let mut objects = of.objects();
        objects.bindings.retain(|it| it.source != source);
        assert!(!has(&objects), "{source}");
        // A publish to a missing exchange fails with an error.
        objects.exchanges.remove("orders.dlx");
        assert!(has(&objects), "{source}");
    }
}
