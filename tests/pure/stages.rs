//! The whole way of a notice: what `overdue explain` shows is what the broker and the worker do.

use std::time::Duration;

use overdue::internals::{
    objects,
    topology::{Topology, route::Delay},
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
                prop_assert!(stage.hops.is_empty() || hops == stage.route.holds);
            }
            // Sent on one by one, as the worker does it.
            let (mut rest, mut walked) = (delay, Vec::new());
            for stage in &way.stages {
                for _ in 0..stage.times {
                    let route = topology.wait(timeout, rest).unwrap();
                    prop_assert_eq!(&route, &stage.route);
                    rest = rest.saturating_sub(route.holds);
                    walked.push(route);
                    if walked.len() > 2_000 {
                        return Ok(());
                    }
                }
            }
            prop_assert_eq!(rest, way.rest);
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
