//! The routes of requeued notices equal a publisher's, but the broker returns a message without a level.

use std::time::Duration;

use overdue::internals::topology::{
    Timeout, Topology,
    route::{Delay, Route},
    strategy::Strategy,
};
use proptest::prelude::*;

use crate::{broker_model::route, generate};

/// The routes of each timeout's notices, with the remaining time `rest` and in each level.
fn routes(topology: &Topology, rest: Duration) -> Vec<Route> {
    let of_timeout = |timeout: &Timeout| {
        let levels = topology.levels.iter().map(|level| Delay::level(level.name()));
        let levels = levels.map(|delay| topology.route(&timeout.name, &delay).expect("a level"));
        levels.chain([topology.wait(timeout, rest).expect("a delay")]).collect::<Vec<_>>()
    };
    topology.timeouts.iter().flat_map(of_timeout).collect()
}

proptest! {
    #[test]
    fn what_is_put_back_comes_where_a_publisher_would_send_it(
        topology in generate::topology_anyhow(),
        rest_ms in 0_u64..=100_000,
    ) {
        let objects = topology.objects();
        for published in routes(&topology, Duration::from_millis(rest_ms)) {
            let again = topology.again(published.clone());
            prop_assert_eq!(&Route { exchange: published.exchange.clone(), ..again.clone() }, &published);
            let led = |it: &Route| route(&objects, &it.exchange, &it.routing_key);
            prop_assert_eq!(led(&again), led(&published));
            if topology.strategy == Strategy::DelayedExchange {
                prop_assert_eq!(again, published);
            } else {
                prop_assert_eq!(led(&again), Some([again.queues[0].clone()].into()));
            }
        }
    }

    /// The binding is missing, as for a removed level; the alternate exchange would have parked the message.
    #[test]
    fn what_has_no_level_is_returned(topology in generate::topology_anyhow(), rest_ms in 0_u64..=100_000) {
        let held = routes(&topology, Duration::from_millis(rest_ms)).into_iter().filter(|it| !it.queues.is_empty());
        for published in held {
            let mut objects = topology.objects();
            objects.bindings.retain(|it| it.destination != published.queues[0]);
            let again = topology.again(published.clone());
            prop_assert_eq!(route(&objects, &again.exchange, &again.routing_key), Some([].into()));
            let parked = route(&objects, &published.exchange, &published.routing_key);
            prop_assert_eq!(parked, Some([topology.parked_queue()].into()));
            for other in ["", "unpaid", "0.unpaid", "0.0.unpaid", "1.1.unpaid.x", "nonsense"] {
                prop_assert_eq!(route(&objects, &again.exchange, other), Some([].into()), "{}", other);
            }
        }
    }
}
