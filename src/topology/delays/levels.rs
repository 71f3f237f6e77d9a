//! A queue per level.

use std::time::Duration;

use crate::{
    ladder::path::Rounding,
    objects::{Argument, Objects},
    text::counted,
    topology::{
        Topology,
        level::{Level, best_level},
        route::{Route, RouteError},
        strategy::{BeforeTimeout, Entry},
    },
};

/// The queue of each level, bound by its name.
pub(super) fn declare(topology: &Topology, objects: &mut Objects) {
    for level in &topology.levels {
        let mut arguments = topology.dead_lettering(&topology.due_exchange());
        let ttl_ms = i64::try_from(level.ttl().as_millis()).unwrap_or(i64::MAX);
        arguments.push(("x-message-ttl", Argument::Integer(ttl_ms)));
        let queue = topology.delay_queue(level);
        objects.queue(topology, &queue, arguments);
        objects.bind(&topology.entry_exchange(), &queue, &format!("{}.*", level.name()));
    }
}

pub(super) fn enter(
    topology: &Topology,
    delay: Duration,
    word: &str,
    rounding: Rounding,
) -> Result<Route, RouteError> {
    let level = match rounding {
        Rounding::Down => best_level(&topology.levels, delay).ok_or(RouteError::NoDelay),
        Rounding::Up => shortest_not_below(&topology.levels, delay),
    };
    Ok(through(topology, level?, word))
}

fn shortest_not_below(levels: &[Level], delay: Duration) -> Result<&Level, RouteError> {
    let enough = levels.iter().filter(|level| level.ttl().as_duration() >= delay);
    enough.min_by_key(|level| level.ttl()).ok_or_else(|| {
        let longest = levels.iter().map(|level| level.ttl().as_duration()).max();
        longest.map_or(RouteError::NoDelay, |longest| RouteError::TooLong { delay, longest })
    })
}

/// Through the queue of a level.
pub(super) fn through(topology: &Topology, level: &Level, word: &str) -> Route {
    Route {
        exchange: topology.entry_exchange(),
        routing_key: format!("{}.{word}", level.name()),
        x_delay: None,
        holds: level.ttl().as_duration(),
        queues: vec![topology.delay_queue(level)],
    }
}

pub(super) fn entry(topology: &Topology) -> Entry {
    let levels = topology.levels.iter().map(Level::to_string).collect();
    Entry { exchange: topology.entry_exchange(), before: BeforeTimeout::Levels(levels) }
}

pub(super) fn in_short(levels: &[Level]) -> String {
    let number = counted(levels.len(), "level");
    match (levels.first(), levels.last()) {
        (Some(first), Some(last)) if levels.len() > 1 => format!("{number}, {first} to {last}"),
        _ => number,
    }
}
