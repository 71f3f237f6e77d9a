//! Which levels a broker routes to, and what takes the place of those that it does not route to.

use std::time::Duration;

use overdue::internals::{
    objects::{Binding, Objects},
    topology::{
        Topology,
        level_routes::{LevelRoutes, lose, without},
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
    /// Published again, a notice comes out no later than its deadline, but where nothing lets go so soon.
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

#[test]
fn what_is_not_known_is_taken_to_lead_somewhere() {
    let topology = topology();
    let leads = |routes: &LevelRoutes| routes.missing().next().is_none();
    assert!(leads(&LevelRoutes::default()));
    // Without the entry exchange publishing itself fails, and says why.
    let routes = LevelRoutes::of_objects(&topology, &Objects::default());
    assert!(leads(&routes));
    assert!(routes.leads(&topology.route("unpaid", &Delay::Usual).unwrap()));
    // Those of a ladder come and go: without theirs a worker does not try.
    let ladder = Topology::parse(LADDER).unwrap();
    let routes = LevelRoutes::of_objects(&ladder, &Objects::default());
    assert!(!routes.leads(&ladder.route("unpaid", &Delay::Usual).unwrap()));
}

/// A broker without management is asked for its queues.
#[test]
fn levels_that_are_known_to_be_gone_are_missing() {
    let file = format!("{WITHOUT_FINDINGS}\n[compat.x-delay]\nexchange = \"reminders\"\n");
    let topology = Topology::parse(&file).unwrap();
    let gone = ["5s", "30m"].map(|level| topology.level(level).unwrap());
    let routes = without(&topology, &gone);
    let missing: Vec<&str> = routes.missing().collect();
    assert_eq!(missing, ["30m.compat", "30m.unpaid", "5s.compat", "5s.unpaid"]);
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

/// What a level holds for longer than is left would come late; a worker holds no message for more than 10 minutes.
#[test]
fn what_no_level_lets_go_in_time_goes_straight_to_the_worker() {
    let topology = topology();
    let key = |unbound: &[&str], ms| {
        let routes = LevelRoutes::of_objects(&topology, &broker(&topology, unbound));
        let rest = Duration::from_millis(ms);
        routes.until_due(&topology, &topology.timeouts[0], rest).unwrap().routing_key
    };
    // It lets go a quarter early.
    assert_eq!([3_749, 3_750].map(|ms| key(&[], ms)), ["unpaid", "5s.unpaid"]);
    let long = ["5s", "30s", "5m"];
    assert_eq!([600_000, 600_001].map(|ms| key(&long, ms)), ["unpaid", "30m.unpaid"]);
}

/// A timeout may be called `delay`; its queues, their generations and their shards are no levels, nor is a listener.
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

/// The plugin's exchange holds whatever comes, and looks for a queue when it is due.
#[test]
fn a_delayed_notice_needs_a_business_queue() {
    let topology = Topology::parse(DELAYED).unwrap();
    let mut objects = topology.objects();
    assert_eq!(LevelRoutes::of_objects(&topology, &objects).missing().next(), None);
    let is_its = |it: &&Binding| it.source == "orders.delayed" && it.routing_key == "#.unpaid";
    let bound = objects.bindings.iter().find(is_its).unwrap().clone();
    objects.bindings.remove(&bound);
    let parked = Binding { destination: topology.parked_queue(), ..bound };
    for instead in [None, Some(parked)] {
        objects.bindings.extend(instead);
        let routes = LevelRoutes::of_objects(&topology, &objects);
        assert_eq!(routes.missing().collect::<Vec<_>>(), ["unpaid"]);
    }
}

/// Publishers do not reach what only workers put back to.
#[test]
fn a_level_that_the_entry_exchange_does_not_lead_to_is_no_other_one() {
    let topology = topology();
    let newer = Topology::parse(&WITHOUT_FINDINGS.replace("\"5m\"", "\"6m\"")).unwrap();
    let mut objects = newer.objects();
    objects.bindings.retain(|it| it.source != "orders.in" || it.routing_key != "6m.*");
    assert_eq!(LevelRoutes::of_objects(&topology, &objects).others().next(), None);
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
