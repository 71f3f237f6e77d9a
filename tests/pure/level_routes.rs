//! Which levels a broker routes to, and what takes the place of those that it does not route to.

use overdue::internals::{
    objects::Objects,
    topology::{Topology, level_routes::LevelRoutes},
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
        let levels = routes.reachable(&topology, timeout);
        prop_assert_eq!(levels.all.len(), 4 - unbound.len());
        prop_assert!(levels.all.iter().all(|level| !unbound.contains(&level.name())));
        // A retry is neither lost nor sent to a level that is not there.
        let retries = if levels.all.is_empty() { 0 } else { topology.retry.len() };
        prop_assert_eq!(levels.retry.len(), retries);
        for (level, wanted) in levels.retry.iter().zip(&topology.retry) {
            prop_assert!(levels.all.contains(level));
            prop_assert!(level == wanted || unbound.contains(&wanted.name()));
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
fn a_retry_level_that_is_missing_gives_way_to_the_longest_shorter_one_or_the_shortest() {
    let topology = topology();
    let retry = |unbound: &[&str]| {
        let routes = LevelRoutes::of_objects(&topology, &broker(&topology, unbound));
        let levels = routes.reachable(&topology, &topology.timeouts[0]);
        levels.retry.iter().map(|level| level.name().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(retry(&[]), ["5s", "30s"]);
    assert_eq!(retry(&["30s"]), ["5s", "5s"]);
    assert_eq!(retry(&["5s"]), ["30s", "30s"]);
    assert_eq!(retry(&["5s", "30s"]), ["5m", "5m"]);
}
