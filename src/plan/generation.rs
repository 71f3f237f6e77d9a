//! Generations: RabbitMQ cannot change a queue, so other arguments need another queue, `orders.delay.30m.2`.

use std::collections::BTreeMap;

use super::step::{Difference, Replaced};
use crate::{
    objects::{Binding, Objects, Queue, shard},
    topology::Topology,
};

/// The desired objects under the names they have, or will have, on this broker.
pub(crate) struct Resolved {
    pub(crate) objects: Objects,
    /// New generations by their name: the queue that each one replaces, and why.
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
    // An exchange can have the name of a queue.
    let rename = |binding: &Binding| {
        let name = names.get(&binding.destination).filter(|_| binding.to_queue);
        let destination = name.unwrap_or(&binding.destination).clone();
        Binding { destination, ..binding.clone() }
    };
    let bindings = desired.bindings.iter().map(rename).collect();
    Resolved { objects: Objects { exchanges: desired.exchanges, queues, bindings }, replaces }
}

/// Every existing generation of `base` with its number, oldest first.
fn generations<'a>(base: &str, observed: &'a Objects) -> Vec<(u32, &'a Queue)> {
    let mut found: Vec<(u32, &Queue)> = observed
        .queues
        .values()
        .filter_map(|queue| Some((number_of(base, &queue.name)?, queue)))
        .collect();
    found.sort_by_key(|(number, _)| *number);
    found
}

/// The number of a generation: 1 for `orders.delay.30m`, 2 for `orders.delay.30m.2`; `None` if `name` is no generation of
/// `base`.
pub fn number_of(base: &str, name: &str) -> Option<u32> {
    let rest = name.strip_prefix(base)?;
    if rest.is_empty() {
        return Some(1);
    }
    let number: u32 = rest.strip_prefix('.')?.parse().ok()?;
    // A generation has one spelling: `.02` and `.1` are foreign names.
    (number >= 2 && name == name_of(base, number)).then_some(number)
}

/// Whether `name` is a queue of the timeout with the queue `base`: that queue or a shard of it, in any generation.
pub fn is_of(base: &str, name: &str) -> bool {
    number_of(base, name).is_some() || is_shard_of(base, name)
}

/// Whether `name` is a shard of `base`, with any number and in any generation.
pub(crate) fn is_shard_of(base: &str, name: &str) -> bool {
    let rest = name.strip_prefix(base).and_then(|rest| rest.strip_prefix('.'));
    let word = rest.map(|rest| rest.split_once('.').map_or(rest, |(word, _)| word));
    let number = word.and_then(shard::number);
    number.is_some_and(|number| number_of(&shard::queue(base, number), name).is_some())
}

/// The name of a generation: `orders.delay.30m`, then `orders.delay.30m.2`, …
pub fn name_of(base: &str, number: u32) -> String {
    if number == 1 { base.to_owned() } else { format!("{base}.{number}") }
}
