//! The exchange type `x-delayed-message` of the plugin `rabbitmq_delayed_message_exchange`.
//!
//! It keeps a message in memory of one node until its `x-delay` is over, and routes it then. So it has no alternate
//! exchange (that would get every message at once), and a message that no binding takes then is gone.

use std::time::Duration;

use crate::{
    ladder::path::Rounding,
    objects::{DELAYED_TYPE, Objects},
    topology::{
        Topology,
        level::Level,
        route::{Route, RouteError},
        strategy::{BeforeTimeout, DELAYED_EXCHANGE_TYPE, Entry},
        trial::Trial,
    },
};

/// The longest `x-delay` in milliseconds, 49.7 days; with a longer one the plugin routes at once
/// (<https://github.com/rabbitmq/rabbitmq-delayed-message-exchange#performance-impact>).
const MAX_DELAY_MS: u32 = u32::MAX;

/// What is tried, in milliseconds.
const TRIED_MS: u32 = 1_000;

const NANOS_PER_MS: u128 = 1_000_000;

pub(super) fn declare(topology: &Topology, objects: &mut Objects) {
    let exchange = topology.delayed_exchange();
    objects.exchange_with(&exchange, DELAYED_EXCHANGE_TYPE, vec![(DELAYED_TYPE, "topic".into())]);
    for timeout in &topology.timeouts {
        let queue = topology.business_queue(timeout);
        objects.bind(&exchange, &queue, &format!("#.{}", timeout.name));
    }
}

/// What is longer than the plugin takes waits the longest time: the worker sends it on for the rest.
pub(super) fn enter(
    topology: &Topology,
    delay: Duration,
    word: &str,
    rounding: Rounding,
) -> Result<Route, RouteError> {
    let longest = Duration::from_millis(MAX_DELAY_MS.into());
    let ms = match rounding {
        // The worker sends it on, and the last part has the lead.
        Rounding::Down if delay >= longest => longest.as_millis(),
        Rounding::Down => delay.saturating_sub(topology.lead.of(delay)).as_millis(),
        Rounding::Up if delay > longest => return Err(RouteError::TooLong { delay, longest }),
        Rounding::Up => delay.as_nanos().div_ceil(NANOS_PER_MS),
    };
    Ok(held(topology, u32::try_from(ms).unwrap_or(MAX_DELAY_MS), word))
}

fn held(topology: &Topology, ms: u32, word: &str) -> Route {
    Route {
        exchange: topology.delayed_exchange(),
        routing_key: word.to_owned(),
        // With 0 the plugin routes at once as well; 1 is the least that it takes for a delay.
        x_delay: Some(ms.max(1)),
        holds: Duration::from_millis(ms.into()),
        early: Duration::ZERO,
        queues: Vec::new(),
    }
}

/// Any delay is as good as another.
pub(super) fn trial(topology: &Topology, word: &str) -> Trial {
    let route = held(topology, TRIED_MS, word);
    Trial { delay: Level::of(route.delay_ttl()), is_level: false, route }
}

pub(super) fn entry(topology: &Topology) -> Entry {
    Entry { exchange: topology.delayed_exchange(), before: BeforeTimeout::Nothing }
}
