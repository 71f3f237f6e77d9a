//! Which queues of a broker are the topology's own, and what each is for.

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

/// What a queue under the topology's prefix is to the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind<'a> {
    /// A delay queue.
    Delay(DelayQueueKind<'a>),
    /// A business queue.
    Business,
    /// A parking lot.
    Parked,
}

/// Which delay a queue is for, as its name says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DelayQueueKind<'a> {
    /// This level, e.g. `30m`.
    Level(&'a str),
    /// A digit of a ladder: what follows `<topology>.ladder.`, e.g. `delay.30m`.
    Digit(&'a str),
}

/// What a queue is by its name and its dead letter exchange; whose it is, its mark says.
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

/// What the names of a ladder have after the topology's.
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

/// How long the broker keeps a message in this queue at the most, whatever level its name says; `None` where it has no
/// TTL. A TTL of zero, which no level has, counts as the shortest.
pub(crate) fn message_ttl(queue: &Queue) -> Option<Ttl> {
    let ms = u64::try_from(queue.message_ttl_ms()?).ok()?;
    Ttl::from_millis(ms.clamp(1, MAX_TTL_MS))
}

/// Whether a queue has the topology's mark. A form can be anybody's, so nothing else makes a queue one to retire.
pub(crate) fn is_marked(topology: &Topology, objects: &Objects, queue: &Queue) -> bool {
    objects.owner_of(&queue.name) == Some(&topology.name)
}

/// What a queue of `objects` is to the topology: one of ours, or one in the place of one. `None` is a foreign queue: it
/// is never touched, whatever its name begins with.
pub(crate) fn kind<'a>(
    topology: &Topology,
    objects: &Objects,
    queue: &'a Queue,
) -> Option<Kind<'a>> {
    let kind = named(topology, queue)?;
    (is_marked(topology, objects, queue) || in_place(topology, queue)).then_some(kind)
}

/// Whether a queue has the very name of a desired one, or is a generation exactly as that is wanted: the next plan adopts it.
fn in_place(topology: &Topology, queue: &Queue) -> bool {
    topology.objects().queues.iter().any(|(base, wanted)| {
        *base == queue.name
            || number_of(base, &queue.name).is_some()
                && Difference::of_queues(wanted, queue).is_empty()
    })
}

/// What a queue is to the topology, retired generations and queues of another shape included; `None` is foreign.
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

/// Names of the queues of `topology` that are there, retired ones included.
pub(crate) fn queues_of(topology: &Topology, objects: &Objects) -> Vec<String> {
    let queues = objects.queues.values();
    let ours = queues.filter(|queue| role(topology, objects, queue).is_some());
    ours.map(|queue| queue.name.clone()).collect()
}

/// Every parking lot of the topology that is there: the one in use, and those that it has replaced.
pub fn parking_lots(topology: &Topology, objects: &Objects) -> Vec<String> {
    let is_lot = |queue: &&Queue| kind(topology, objects, queue) == Some(Kind::Parked);
    objects.queues.values().filter(is_lot).map(|queue| queue.name.clone()).collect()
}
