//! The whole way of a notice: what `overdue explain` shows is what the broker and the worker do.

use std::time::Duration;

use overdue::internals::{
    objects,
    topology::{Topology, route::Delay, stages::Stage},
};
use proptest::prelude::*;

const REST: &str = "[[timeout]]\nname = \"unpaid\"\nafter = \"30m\"\n[retry]\nafter = [\"5s\"]\n";

fn strategies() -> [Topology; 4] {
    let delays = [
        "name = \"orders\"\n[delay]\nlevels = [\"5s\", \"5m\", \"30m\"]\n",
        "name = \"orders\"\n[delay]\nstrategy = \"ladder\"\n[delay.ladder]\nmax = \"30d\"\n",
        "name = \"orders\"\n[delay]\nstrategy = \"ladder\"\nlevels = [\"30m\"]\n[delay.ladder]\nmax = \"1h\"\nqueues = 74\n",
        "name = \"orders\"\n[delay]\nstrategy = \"delayed-exchange\"\n",
    ];
    delays.map(|delay| Topology::parse(&format!("{delay}{REST}")).expect("a good file"))
}

/// What is longer than an `x-delay` can be waits the longest time first, as often as that fits; the last part has the lead.
#[test]
fn the_longest_x_delay_comes_first() {
    let [.., plugin] = strategies();
    let timeout = &plugin.timeouts[0];
    let longest = Duration::from_millis(u32::MAX.into());
    for over_ms in [0, 1, 1_000, 2_000, 2_001] {
        let delay = longest * 3 + Duration::from_millis(over_ms);
        let first = plugin.wait(timeout, delay).unwrap();
        let way = plugin.stages(timeout, first, delay, Duration::ZERO).unwrap();
        assert_eq!(rest_of_walk(&plugin, delay, &way.stages), way.rest);
        let longest = way.stages.iter().filter(|stage| stage.route.x_delay == Some(u32::MAX));
        assert_eq!(longest.map(|stage| stage.times).sum::<u64>(), 3);
    }
}

/// What is left of a delay that is sent on publish by publish, as the worker does it.
fn rest_of_walk(topology: &Topology, delay: Duration, stages: &[Stage]) -> Duration {
    let mut rest = delay;
    for stage in stages {
        for _ in 0..stage.times {
            assert_eq!(topology.wait(&topology.timeouts[0], rest).as_ref(), Ok(&stage.route));
            rest = rest.saturating_sub(stage.route.holds);
        }
    }
    rest
}

proptest! {
    /// Nothing is forgotten and nothing waits twice: holds and the rest in hand add up to the delay.
    #[test]
    fn holds_and_rest_add_up(ms in 0_u64..20 * 86_400_000, hold_ms in 0_u64..5_000) {
        let (delay, hold) = (Duration::from_millis(ms), Duration::from_millis(hold_ms));
        for topology in strategies() {
            let timeout = &topology.timeouts[0];
            let first = topology.wait(timeout, delay).unwrap();
            let way = topology.stages(timeout, first, delay, hold).unwrap();
            let held: Duration = way
                .stages
                .iter()
                .map(|stage| stage.route.holds * u32::try_from(stage.times).unwrap())
                .sum();
            prop_assert_eq!(held + way.rest, delay + way.late);
            // What is there is too long for it.
            let too_long = topology.wait(timeout, way.rest).is_ok_and(|it| it.holds > way.rest);
            let is_short = way.rest < Duration::from_secs(1);
            prop_assert!(way.rest <= hold || is_short || too_long, "{:?}", way);
            for stage in &way.stages {
                let hops: Duration = stage.hops.iter().map(|hop| hop.hold).sum();
                prop_assert!(stage.hops.iter().map(|hop| &hop.queue).eq(&stage.route.queues));
                prop_assert!(stage.hops.is_empty() || hops == stage.route.holds);
            }
            prop_assert_eq!(rest_of_walk(&topology, delay, &way.stages), way.rest);
        }
    }

    /// Exchange and key alone say the same as the delay did, and the broker's routing agrees about the first queue.
    #[test]
    fn what_was_published_leads_back_to_the_route(ms in 0_u64..3_600_000) {
        let delay = Duration::from_millis(ms);
        for topology in strategies() {
            let route = topology.route("unpaid", &Delay::exactly(delay)).unwrap();
            let delay = route.x_delay.map(|ms| Duration::from_millis(ms.into()));
            let found = topology.published(Some(&route.exchange), &route.routing_key, delay).unwrap();
            prop_assert_eq!(&found, &(route.clone(), "unpaid".to_owned()));
            // The exchange is known by the key.
            prop_assert_eq!(topology.published(None, &route.routing_key, delay).unwrap(), found);
            if let Some(first) = route.queues.first() {
                let routed = objects::route(&topology.objects(), &route.exchange, &route.routing_key);
                prop_assert_eq!(routed.queues.iter().collect::<Vec<_>>(), [first]);
            }
        }
    }
}
