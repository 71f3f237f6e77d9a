//! A ladder, and levels beside it.

use std::time::Duration;

use crate::{
    ladder::{
        Ladder,
        objects::Ends,
        path::{Path, Rounding},
    },
    objects::Objects,
    topology::{
        Topology,
        file::QueueType,
        lead::Lead,
        level::{Level, Ttl},
        route::{Route, RouteError},
        strategy::{BeforeTimeout, Entry},
        trial::Trial,
    },
};

pub(super) fn declare(topology: &Topology, ladder: &Ladder, objects: &mut Objects) {
    let (due, park) = (topology.due_exchange(), topology.park_exchange());
    let quorum = topology.queue_type == QueueType::Quorum;
    let ends = Ends { due_exchange: &due, park_exchange: &park, quorum };
    let Objects { exchanges, queues, bindings } = ladder.objects(&ends);
    objects.exchanges.extend(exchanges);
    objects.queues.extend(queues);
    objects.bindings.extend(bindings);
}

/// What is longer than the ladder takes the longest way: the worker sends it on for the rest.
pub(super) fn enter(
    (ladder, lead): (&Ladder, Lead),
    delay: Duration,
    word: &str,
    rounding: Rounding,
) -> Result<Route, RouteError> {
    let delay = delay.min(ladder.max());
    let exact = ladder.enter(delay, rounding, word)?;
    if rounding == Rounding::Up {
        return Ok(exact.into());
    }
    let earlier =
        ladder.enter(delay.saturating_sub(lead.through_a_ladder(delay)), rounding, word)?;
    // A hop more costs the broker more than the lead saves: 30 minutes are one hop, and a second less are four.
    let costs_nothing = (1..=exact.hops.len()).contains(&earlier.hops.len());
    Ok(if costs_nothing { earlier.into() } else { exact.into() })
}

impl From<Path> for Route {
    fn from(path: Path) -> Self {
        Self {
            holds: path.total(),
            early: Duration::ZERO,
            exchange: path.exchange,
            routing_key: path.routing_key,
            x_delay: None,
            queues: path.hops.into_iter().map(|hop| hop.queue).collect(),
        }
    }
}

/// Each place with its own digit 1, smallest first.
pub(super) fn trials(ladder: &Ladder, word: &str) -> Vec<Trial> {
    let places = ladder.places().iter();
    places
        .filter_map(|place| trial(ladder.enter(place.unit(), Rounding::Down, word).ok()?))
        .collect()
}

/// Places whose own digit 1 takes longer than `within`: with 0 for all digits but the smallest.
pub(super) fn trials_through(ladder: &Ladder, word: &str, within: Duration) -> Vec<Trial> {
    let places = ladder.places().iter().enumerate().filter(|(_, place)| place.unit() > within);
    let through = places.filter_map(|(index, place)| {
        let key = format!("1.{}{word}", "0.".repeat(index));
        trial(ladder.decode(&ladder.exchange(*place), &key).ok()?)
    });
    through.collect()
}

fn trial(path: Path) -> Option<Trial> {
    let delay = Level::of(Ttl::of(path.total())?);
    Some(Trial { delay, is_level: false, route: path.into() })
}

/// The exchange of each place, largest first.
pub(super) fn entries(ladder: &Ladder) -> impl Iterator<Item = Entry> {
    let places = ladder.places().iter().enumerate().rev();
    places.map(|(index, place)| Entry {
        exchange: ladder.exchange(*place),
        before: BeforeTimeout::Digits(index + 1),
    })
}

/// The queue of each digit.
pub(super) fn queues(ladder: &Ladder) -> Vec<String> {
    let places = ladder.places().iter();
    let queues =
        places.flat_map(|place| (1..=place.highest()).map(|digit| ladder.queue(*place, digit)));
    queues.collect()
}
