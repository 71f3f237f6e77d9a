//! A queue per level.

use std::time::Duration;

use crate::{
    ladder::path::Rounding,
    objects::{Argument, Objects},
    text::counted,
    topology::{
        Topology,
        lead::{Lead, best_level},
        level::Level,
        route::{Route, RouteError},
        strategy::{BeforeTimeout, Entry},
    },
};

/// The queue of each level, bound by its name.
pub(super) fn declare(topology: &Topology, objects: &mut Objects) {
    for level in &topology.levels {
        let mut arguments = topology.dead_lettering(&topology.due_exchange());
        let ttl = topology.lead.lets_go(level);
        let ttl_ms = i64::try_from(ttl.as_millis()).unwrap_or(i64::MAX);
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
        Rounding::Down => {
            best_level(&topology.levels, topology.lead, delay).ok_or(RouteError::NoDelay)
        }
        Rounding::Up => shortest_not_below(topology, delay),
    };
    Ok(through(topology, level?, word))
}

fn shortest_not_below(topology: &Topology, delay: Duration) -> Result<&Level, RouteError> {
    let levels = topology.levels.iter();
    let holds = |level: &Level| topology.lead.lets_go(level).as_duration();
    let enough = levels.clone().filter(|level| holds(level) >= delay);
    enough.min_by_key(|level| level.ttl()).ok_or_else(|| {
        let longest = levels.map(holds).max();
        longest.map_or(RouteError::NoDelay, |longest| RouteError::TooLong { delay, longest })
    })
}

/// Through the queue of a level.
pub(super) fn through(topology: &Topology, level: &Level, word: &str) -> Route {
    let holds = topology.lead.lets_go(level).as_duration();
    Route {
        exchange: topology.entry_exchange(),
        routing_key: format!("{}.{word}", level.name()),
        x_delay: None,
        holds,
        early: level.ttl().as_duration().saturating_sub(holds),
        queues: vec![topology.delay_queue(level)],
    }
}

pub(super) fn entry(topology: &Topology) -> Entry {
    let levels = topology.levels.iter().map(Level::to_string).collect();
    Entry { exchange: topology.entry_exchange(), before: BeforeTimeout::Levels(levels) }
}

pub(super) fn in_short(levels: &[Level], lead: Lead) -> String {
    let number = counted(levels.len(), "level");
    let range = match (levels.first(), levels.last()) {
        (Some(first), Some(last)) if levels.len() > 1 => format!("{number}, {first} to {last}"),
        _ => number,
    };
    match levels.last().map(|longest| lead.of(longest.ttl().as_duration())) {
        Some(lead) if !lead.is_zero() => format!("{range}, let go up to {lead:?} early"),
        _ => range,
    }
}
