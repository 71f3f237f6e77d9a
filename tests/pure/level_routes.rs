//! Which levels a broker routes to, and what takes the place of those that it does not route to.

use std::time::Duration;

use overdue::internals::{
    objects::{Binding, Objects},
    topology::{Topology, level_routes::LevelRoutes, route::Delay},
};
use proptest::{prelude::*, sample::subsequence};

use crate::samples::WITHOUT_FINDINGS;

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
        // What has to wait is neither lost nor sent to a level that is not there.
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
    /// Published anew, a notice comes out no later than its deadline, but where nothing lets go so soon.
    #[test]
    fn a_notice_that_is_published_anew_comes_out_at_its_deadline_or_before(
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

#[test]
fn what_is_not_known_is_taken_to_lead_somewhere() {
    let topology = topology();
    let leads = |routes: &LevelRoutes| routes.missing().next().is_none();
    assert!(leads(&LevelRoutes::default()));
    // Without the entry exchange publishing itself fails, and says why.
    assert!(leads(&LevelRoutes::of_objects(&topology, &Objects::default())));
}

#[test]
fn a_level_that_is_missing_gives_way_to_the_longest_shorter_one_or_the_shortest() {
    let topology = topology();
    let waits = |unbound: &[&str]| {
        let routes = LevelRoutes::of_objects(&topology, &broker(&topology, unbound));
        [5, 30].map(|seconds| {
            let rest = Duration::from_secs(seconds);
            routes.wait(&topology, &topology.timeouts[0], rest).unwrap().routing_key
        })
    };
    assert_eq!(waits(&[]), ["5s.unpaid", "30s.unpaid"]);
    assert_eq!(waits(&["30s"]), ["5s.unpaid", "5s.unpaid"]);
    assert_eq!(waits(&["5s"]), ["30s.unpaid", "30s.unpaid"]);
    assert_eq!(waits(&["5s", "30s"]), ["5m.unpaid", "5m.unpaid"]);
}

/// What the topology names and what it lacks, as a worker tells it.
#[test]
fn a_broker_with_another_file_has_other_levels() {
    let topology = topology();
    let newer = WITHOUT_FINDINGS.replace("\"5m\"", "\"6m\"");
    let routes = LevelRoutes::of_objects(&topology, &Topology::parse(&newer).unwrap().objects());
    assert_eq!(routes.others().collect::<Vec<_>>(), ["6m"]);
    assert_eq!(routes.missing().collect::<Vec<_>>(), ["5m.unpaid"]);
    assert_eq!(routes.missing_to_timeouts(&topology), ["5m.unpaid".to_owned()].into());
    // Without those of retries a worker takes others.
    let routes = LevelRoutes::of_objects(&topology, &broker(&topology, &["5s", "30s"]));
    assert_eq!(routes.missing_to_timeouts(&topology), [].into());
}

/// A worker publishes there with a word of its own.
#[test]
fn messages_of_an_exchange_that_was_taken_over_take_levels_that_are_there_too() {
    let file = format!("{WITHOUT_FINDINGS}\n[compat.x-delay]\nexchange = \"reminders\"\n");
    let topology = Topology::parse(&file).unwrap();
    let routes = LevelRoutes::of_objects(&topology, &broker(&topology, &["30s"]));
    assert_eq!(routes.missing().collect::<Vec<_>>(), ["30s.compat", "30s.unpaid"]);
}

/// Workers have another exchange for it, which helps no publisher.
#[test]
fn a_digit_that_only_workers_reach_is_missing() {
    let ladder = "name = \"orders\"\n[delay]\nstrategy = \"ladder\"\nladder = { max = \"9s\" }\n";
    let timeout = "[[timeout]]\nname = \"unpaid\"\nafter = \"3s\"\n";
    let topology = Topology::parse(&format!("{ladder}{timeout}")).unwrap();
    let sent = topology.route("unpaid", &Delay::Usual).unwrap();
    let mut objects = topology.objects();
    assert!(LevelRoutes::of_objects(&topology, &objects).leads(&sent));
    let is_its = |it: &Binding| it.source == sent.exchange && it.destination == sent.queues[0];
    objects.bindings.retain(|it| !is_its(it));
    assert!(!LevelRoutes::of_objects(&topology, &objects).leads(&sent));
}

/// One of its own, of any generation or as shards: not of others who listen, and not of a timeout with a longer name.
#[test]
fn a_timeout_has_a_queue_where_one_of_its_own_gets_what_is_due() {
    let topology = topology();
    let sharded = WITHOUT_FINDINGS.replace("name = \"unpaid\"", "name = \"unpaid\"\nshards = 2");
    let with_shards = Topology::parse(&sharded).unwrap();
    let has = |of: &Topology, change: &dyn Fn(&mut Objects)| {
        let mut objects = of.objects();
        change(&mut objects);
        LevelRoutes::of_objects(&topology, &objects).has_queue("unpaid")
    };
    let leads_to = |of: &Topology, queue: &str| {
        has(of, &|objects| {
            let (due, others): (Vec<Binding>, Vec<Binding>) = std::mem::take(&mut objects.bindings)
                .into_iter()
                .partition(|it| it.source == "orders.dlx" && it.routing_key == "#.unpaid");
            let due = due.into_iter().map(|it| Binding { destination: queue.to_owned(), ..it });
            objects.bindings = others.into_iter().chain(due).collect();
        })
    };
    assert!(has(&topology, &|_| {}) && has(&with_shards, &|_| {}));
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
        assert_eq!(leads_to(&topology, queue), is_its, "{queue}");
    }
    let unbound = |source: &'static str| {
        move |objects: &mut Objects| objects.bindings.retain(|it| it.source != source)
    };
    assert!(!has(&topology, &unbound("orders.dlx")));
    assert!(!has(&with_shards, &unbound("orders.unpaid.shards")));
    // Publishing to an exchange that is not there fails, and says so.
    assert!(has(&topology, &|objects| drop(objects.exchanges.remove("orders.dlx"))));
}
