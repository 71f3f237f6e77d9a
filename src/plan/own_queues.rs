//! The queues of a broker that belong to the topology, and the role of each.

use super::{
    Difference,
    generation::{is_of, number_of},
};
use crate::{
    objects::{Argument, Objects, Queue},
    topology::{
        Topology,
        level::{Level, MAX_TTL_MS, Ttl},
    },
};

/// The role of a queue under the topology's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// A delay queue.
    Delay(DelayQueueKind<'a>),
    /// A business queue.
    Business,
    /// A parking lot.
    Parked,
}

/// The delay of a queue, from its name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelayQueueKind<'a> {
    /// A level, e.g. `30m`.
    Level(&'a str),
    /// A digit of a ladder: what follows `<topology>.ladder.`, e.g. `delay.30m`.
    Digit(&'a str),
}

/// The role of a queue, from its name and its dead letter exchange. The owner of a queue is in its mark.
///
/// A queue with the name of a desired queue has the role of that queue, whatever its dead letter exchange is.
pub(crate) fn named<'a>(topology: &Topology, queue: &'a Queue) -> Option<Kind<'a>> {
    let name = queue.name.as_str();
    let rest = name.strip_prefix(&topology.name)?.strip_prefix('.')?;
    let dead_letters = queue.arguments.get("x-dead-letter-exchange");
    let dead_letters_to = |exchange| dead_letters == Some(&Argument::Text(exchange));
    if let Some(level) = level_of(rest) {
        let wanted = topology.level(level).is_some_and(|level| topology.delay_queue(level) == name);
        let ours = wanted || dead_letters_to(topology.due_exchange());
        return ours.then_some(Kind::Delay(DelayQueueKind::Level(level)));
    }
    if let Some(digit) = digit_of(rest) {
        let to = queue.dead_letter_exchange();
        let ladder = format!("{}.{LADDER}", topology.name);
        let ours = to.is_some_and(|to| to == topology.due_exchange() || to.starts_with(&ladder));
        return ours.then_some(Kind::Delay(DelayQueueKind::Digit(digit)));
    }
    if let Some(level) = rest.strip_prefix("compat.").and_then(level_of) {
        return dead_letters_to(topology.compat_due_exchange())
            .then_some(Kind::Delay(DelayQueueKind::Level(level)));
    }
    if let Some(number) = number_of(&topology.parked_queue(), name) {
        return (number == 1 || dead_letters.is_none()).then_some(Kind::Parked);
    }
    let word = rest.split_once('.').map_or(rest, |(word, _)| word);
    let wanted = topology.all_business_queues().any(|queue| queue == name);
    let ours = is_of(word, rest) && dead_letters_to(topology.park_exchange());
    (wanted || ours).then_some(Kind::Business)
}

/// Begins the names of a ladder's exchanges and queues, after the topology's name.
const LADDER: &str = "ladder.";

/// The digit in `ladder.delay.30m`; `ladder.2` is the queue of a timeout with this name.
fn digit_of(rest: &str) -> Option<&str> {
    rest.strip_prefix(LADDER).filter(|digit| digit.contains("delay."))
}

/// The level in `delay.30m` or `delay.30m.2`.
fn level_of(rest: &str) -> Option<&str> {
    let level = rest.strip_prefix("delay.")?;
    let level = level.split_once('.').map_or(level, |(level, _)| level);
    let _: Level = level.parse().ok()?;
    number_of(&format!("delay.{level}"), rest).map(|_| level)
}

/// The longest time that the broker keeps a message in this queue, whatever level its name says; `None` for a queue without a
/// TTL. A TTL of zero, which no level has, counts as 1 ms.
pub(crate) fn message_ttl(queue: &Queue) -> Option<Ttl> {
    let ms = u64::try_from(queue.message_ttl_ms()?).ok()?;
    Ttl::from_millis(ms.clamp(1, MAX_TTL_MS))
}

/// Whether a queue has the topology's mark. Only a marked queue is retired: a foreign queue can have the same name and arguments.
pub(crate) fn is_marked(topology: &Topology, objects: &Objects, queue: &Queue) -> bool {
    objects.owner_of(&queue.name) == Some(&topology.name)
}

/// The role of a queue that has the topology's mark, or that the next plan adopts. `None` for a foreign queue, which no plan
/// changes, whatever its name begins with.
pub(crate) fn kind<'a>(
    topology: &Topology,
    objects: &Objects,
    queue: &'a Queue,
) -> Option<Kind<'a>> {
    let kind = named(topology, queue)?;
    (is_marked(topology, objects, queue) || in_place(topology, queue)).then_some(kind)
}

/// Whether the next plan adopts the queue: it has the name of a desired queue, or is a generation with the desired arguments.
fn in_place(topology: &Topology, queue: &Queue) -> bool {
    topology.objects().queues.iter().any(|(base, wanted)| {
        *base == queue.name
            || number_of(base, &queue.name).is_some()
                && Difference::of_queues(wanted, queue).is_empty()
    })
}

/// The role of a queue; retired generations and queues with other arguments have one, too. `None` for a foreign queue.
pub(crate) fn role<'a>(
    topology: &Topology,
    objects: &Objects,
    queue: &'a Queue,
) -> Option<Kind<'a>> {
    kind(topology, objects, queue).or_else(|| {
        let mut bases = topology.timeouts.iter().map(|timeout| topology.business_queue(timeout));
        bases.any(|base| is_of(&base, &queue.name)).then_some(Kind::Business)
    })
}

/// Names of the topology's queues on the broker, with retired queues.
pub(crate) fn queues_of(topology: &Topology, objects: &Objects) -> Vec<String> {
    let queues = objects.queues.values();
    let ours = queues.filter(|queue| role(topology, objects, queue).is_some());
    ours.map(|queue| queue.name.clone()).collect()
}

/// The topology's parking lots on the broker: the current one, and earlier generations.
pub fn parking_lots(topology: &Topology, objects: &Objects) -> Vec<String> {
    let is_lot = |queue: &&Queue| kind(topology, objects, queue) == Some(Kind::Parked);
    objects.queues.values().filter(is_lot).map(|queue| queue.name.clone()).collect()
}
