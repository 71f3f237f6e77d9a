//! A queue per level.

use std::time::Duration;

use crate::{
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

pub(super) fn enter(topology: &Topology, delay: Duration, word: &str) -> Result<Route, RouteError> {
    let level = best_level(&topology.levels, delay).ok_or(RouteError::NoDelay)?;
    Ok(through(topology, level, word))
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
