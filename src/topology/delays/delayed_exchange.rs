//! The exchange type `x-delayed-message` of the plugin `rabbitmq_delayed_message_exchange`.
//!
//! It keeps a message in memory of one node until its `x-delay` is over, and routes it then. So it has no alternate
//! exchange (that would get every message at once), and a message that no binding takes then is gone.

use std::time::Duration;

use crate::{
    objects::{DELAYED_TYPE, Objects},
    topology::{
        Topology,
        level::Level,
        route::Route,
        strategy::{BeforeTimeout, DELAYED_EXCHANGE_TYPE, Entry},
        trial::Trial,
    },
};

/// The longest `x-delay` in milliseconds, 49.7 days; with a longer one the plugin routes at once
/// (<https://github.com/rabbitmq/rabbitmq-delayed-message-exchange#performance-impact>).
const MAX_DELAY_MS: u32 = u32::MAX;

/// What is tried.
const TRIED: Duration = Duration::from_secs(1);

pub(super) fn declare(topology: &Topology, objects: &mut Objects) {
    let exchange = topology.delayed_exchange();
    objects.exchange_with(&exchange, DELAYED_EXCHANGE_TYPE, vec![(DELAYED_TYPE, "topic".into())]);
    for timeout in &topology.timeouts {
        let queue = topology.business_queue(timeout);
        objects.bind(&exchange, &queue, &format!("#.{}", timeout.name));
    }
}

pub(super) fn enter(topology: &Topology, delay: Duration, word: &str) -> Route {
    let ms = u32::try_from(delay.as_millis()).unwrap_or(MAX_DELAY_MS);
    Route {
        exchange: topology.delayed_exchange(),
        routing_key: word.to_owned(),
        // With 0 the plugin routes at once as well; 1 is the least that it takes for a delay.
        x_delay: Some(ms.max(1)),
        holds: Duration::from_millis(ms.into()),
        queues: Vec::new(),
    }
}

/// Any delay is as good as another.
pub(super) fn trial(topology: &Topology, word: &str) -> Trial {
    let route = enter(topology, TRIED, word);
    Trial { delay: Level::of(route.holds_ttl()), is_level: false, route }
}

pub(super) fn entry(topology: &Topology) -> Entry {
    Entry { exchange: topology.delayed_exchange(), before: BeforeTimeout::Nothing }
}
