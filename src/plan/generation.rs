//! Generations: RabbitMQ cannot change a queue, so another shape is another queue, `orders.delay.30m.2`.

use std::collections::BTreeMap;

use super::{difference::Difference, reason::Replaced};
use crate::{
    objects::{Argument, Binding, Objects, Queue},
    topology::{
        Topology,
        level::{Level, MAX_TTL_MS, Ttl},
    },
};

/// The desired objects under the names they have, or will have, on this broker.
pub(crate) struct Resolved {
    pub(crate) objects: Objects,
    /// New generations, by the name they will have: what they replace, and why.
    pub(crate) replaces: BTreeMap<String, Replaced>,
}

/// Finds for each desired queue the newest generation that is as desired, or names a new one.
pub(crate) fn resolve(topology: &Topology, observed: &Objects) -> Resolved {
    let desired = topology.objects();
    let mut names: BTreeMap<String, String> = BTreeMap::new();
    let mut replaces = BTreeMap::new();
    let mut queues = BTreeMap::new();
    for (base, queue) in &desired.queues {
        let generations = generations(base, observed);
        let fitting = generations
            .iter()
            .rev()
            .find(|(_, found)| Difference::of_queues(queue, found).is_empty());
        let name = match (fitting, generations.last()) {
            (Some((_, found)), _) => found.name.clone(),
            (None, None) => base.clone(),
            (None, Some((number, found))) => {
                let name = name_of(base, number.saturating_add(1));
                let old = found.name.clone();
                let differences = Difference::of_queues(queue, found);
                replaces.insert(name.clone(), Replaced { queue: old, differences });
                name
            }
        };
        queues.insert(name.clone(), Queue { name: name.clone(), ..queue.clone() });
        names.insert(base.clone(), name);
    }
    let rename = |binding: &Binding| Binding {
        destination: names.get(&binding.destination).unwrap_or(&binding.destination).clone(),
        ..binding.clone()
    };
    let bindings = desired.bindings.iter().map(rename).collect();
    Resolved { objects: Objects { exchanges: desired.exchanges, queues, bindings }, replaces }
}

/// Every generation of `base` that is there, oldest first.
fn generations<'a>(base: &str, observed: &'a Objects) -> Vec<(u32, &'a Queue)> {
    let mut found: Vec<(u32, &Queue)> = observed
        .queues
        .values()
        .filter_map(|queue| Some((number_of(base, &queue.name)?, queue)))
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found
}

/// `orders.delay.30m` is generation 1 of itself, `orders.delay.30m.2` the second.
#[must_use]
pub fn number_of(base: &str, name: &str) -> Option<u32> {
    let rest = name.strip_prefix(base)?;
    if rest.is_empty() {
        return Some(1);
    }
    let number: u32 = rest.strip_prefix('.')?.parse().ok()?;
    // One spelling per generation: `.02` and `.1` are somebody else's.
    (number >= 2 && name == name_of(base, number)).then_some(number)
}

/// The name of a generation: `orders.delay.30m`, then `orders.delay.30m.2`, …
#[must_use]
pub fn name_of(base: &str, number: u32) -> String {
    if number == 1 { base.to_owned() } else { format!("{base}.{number}") }
}

/// What a queue under the topology's prefix is to the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// A delay queue.
    Delay(Hold<'a>),
    /// A business queue.
    Business,
    /// A parking lot.
    Parked,
}

/// Which delay a queue is for, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Hold<'a> {
    /// This level, e.g. `30m`.
    Level(&'a str),
    /// A digit of a ladder: what follows `<topology>.ladder.`, e.g. `delay.30m`.
    Digit(&'a str),
}

/// What a queue is by its name and its dead letter exchange; whose it is, [`owner`](super::ownership::owner) says.
///
/// A queue that has the very name of a desired one is in its place, whatever it dead-letters to.
pub(crate) fn named<'a>(topology: &Topology, queue: &'a Queue) -> Option<Kind<'a>> {
    let name = queue.name.as_str();
    let rest = name.strip_prefix(&topology.name)?.strip_prefix('.')?;
    let dead_letters = queue.arguments.get("x-dead-letter-exchange");
    let dead_letters_to = |exchange| dead_letters == Some(&Argument::Text(exchange));
    if let Some(level) = level_of(rest) {
        let wanted = topology.level(level).is_some_and(|level| topology.delay_queue(level) == name);
        let ours = wanted || dead_letters_to(topology.due_exchange());
        return ours.then_some(Kind::Delay(Hold::Level(level)));
    }
    if let Some(digit) = rest.strip_prefix(LADDER) {
        let to = queue.dead_letter_exchange();
        let ladder = format!("{}.{LADDER}", topology.name);
        let ours = to.is_some_and(|to| to == topology.due_exchange() || to.starts_with(&ladder));
        return ours.then_some(Kind::Delay(Hold::Digit(digit)));
    }
    if let Some(level) = rest.strip_prefix("compat.").and_then(level_of) {
        return dead_letters_to(topology.compat_due_exchange())
            .then_some(Kind::Delay(Hold::Level(level)));
    }
    if let Some(number) = number_of(&topology.parked_queue(), name) {
        return (number == 1 || dead_letters.is_none()).then_some(Kind::Parked);
    }
    let word = rest.split_once('.').map_or(rest, |(word, _)| word);
    let wanted = topology.timeouts.iter().any(|timeout| topology.business_queue(timeout) == name);
    let ours = number_of(word, rest).is_some() && dead_letters_to(topology.park_exchange());
    (wanted || ours).then_some(Kind::Business)
}

/// Whether a queue has the very name of a desired one.
pub(crate) fn in_place(topology: &Topology, queue: &str) -> bool {
    queue == topology.parked_queue()
        || topology.delay_queues().any(|(_, name)| name == queue)
        || topology.compat_levels().any(|level| topology.compat_delay_queue(level) == queue)
        || topology.compat.is_some() && topology.compat_queue() == queue
        || topology.timeouts.iter().any(|timeout| topology.business_queue(timeout) == queue)
}

/// Whether a queue of the topology is one of a ladder, by its name.
pub(crate) fn is_in_a_ladder(topology: &Topology, queue: &str) -> bool {
    let rest = queue.strip_prefix(&topology.name).and_then(|rest| rest.strip_prefix('.'));
    rest.is_some_and(|rest| rest.starts_with(LADDER))
}

/// What the names of a ladder have after the topology's.
const LADDER: &str = "ladder.";

/// The level in `delay.30m` or `delay.30m.2`.
fn level_of(rest: &str) -> Option<&str> {
    let level = rest.strip_prefix("delay.")?;
    let level = level.split_once('.').map_or(level, |(level, _)| level);
    let _: Level = level.parse().ok()?;
    number_of(&format!("delay.{level}"), rest).map(|_| level)
}

/// How long the broker keeps a message in this queue at the most, whatever level its name says; `None` where it has no
/// TTL. A TTL of zero, which no level has, counts as the shortest.
pub(crate) fn message_ttl(queue: &Queue) -> Option<Ttl> {
    let ms = u64::try_from(queue.message_ttl_ms()?).ok()?;
    Ttl::from_millis(ms.clamp(1, MAX_TTL_MS))
}
