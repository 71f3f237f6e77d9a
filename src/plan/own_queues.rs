//! Which queues of a broker are the topology's own, by their mark or by their form, and what each is for.

use std::collections::BTreeMap;

use super::generation::{is_of, number_of};
use crate::{
    objects::{Argument, Binding, Objects, Queue, shard},
    topology::{
        Topology,
        file::QueueType,
        level::{Level, MAX_TTL_MS, Ttl},
    },
};

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

/// What a queue is by its name and its dead letter exchange; whose it is, [`owner`] says.
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
    if let Some(digit) = digit_of(rest) {
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
    let wanted = topology.all_business_queues().any(|queue| queue == name);
    let ours = is_of(word, rest) && dead_letters_to(topology.park_exchange());
    (wanted || ours).then_some(Kind::Business)
}

/// Whether a queue has the very name of a desired one.
pub(crate) fn in_place(topology: &Topology, queue: &str) -> bool {
    queue == topology.parked_queue()
        || topology.delay_queues().any(|(_, name)| name == queue)
        || topology.compat_levels().any(|level| topology.compat_delay_queue(level) == queue)
        || topology.compat.is_some() && topology.compat_queue() == queue
        || topology.all_business_queues().any(|business| business == queue)
}

/// Whether a queue of the topology is one of a ladder, by its name.
pub(crate) fn is_in_a_ladder(topology: &Topology, queue: &str) -> bool {
    let rest = queue.strip_prefix(&topology.name).and_then(|rest| rest.strip_prefix('.'));
    rest.and_then(digit_of).is_some()
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

/// Whose a queue is whose name and dead letter exchange are those of one of ours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Owner {
    /// It has our mark.
    Marked,
    /// It has none, and everything about it is as a version of this program that knew no marks has made it.
    Recognized,
    /// Somebody else's, or nobody knows.
    Foreign,
}

/// What a queue of `objects` is to the topology: one of ours, or one in the place of one. `None` is a foreign queue: it
/// is never touched, whatever its name begins with.
pub(crate) fn kind<'a>(
    topology: &Topology,
    objects: &Objects,
    queue: &'a Queue,
) -> Option<Kind<'a>> {
    let kind = named(topology, queue)?;
    let ours = || owner(topology, objects, queue, kind) != Owner::Foreign;
    (in_place(topology, &queue.name) || ours()).then_some(kind)
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
pub(crate) fn parking_lots(topology: &Topology, objects: &Objects) -> Vec<String> {
    let is_lot = |queue: &&Queue| kind(topology, objects, queue) == Some(Kind::Parked);
    objects.queues.values().filter(is_lot).map(|queue| queue.name.clone()).collect()
}

/// Whose `queue` is.
pub(crate) fn owner(
    topology: &Topology,
    objects: &Objects,
    queue: &Queue,
    kind: Kind<'_>,
) -> Owner {
    match objects.owner_of(&queue.name) {
        Some(owner) if owner == topology.name => Owner::Marked,
        None if is_recognized(topology, objects, queue, kind) => Owner::Recognized,
        _ => Owner::Foreign,
    }
}

/// Every property has to be the one that we give, and it has to be bound as we bind it, and in no other way: a shape can
/// be anybody's. A classic queue has no argument but its dead letter exchange, so one of a timeout that is not in the
/// topology is not recognized at all.
fn is_recognized(topology: &Topology, objects: &Objects, queue: &Queue, kind: Kind<'_>) -> bool {
    if !is_shaped(topology, queue, kind) {
        return false;
    }
    let expected = expected(topology, queue, kind);
    let bindings = objects.bindings.iter().filter(|binding| {
        binding.to_queue && binding.destination == queue.name && !binding.source.is_empty()
    });
    let bindings: Vec<&Binding> = bindings.collect();
    let again = Binding { source: topology.again_exchange(), ..expected.clone() };
    let is_level = matches!(kind, Kind::Delay(_));
    if bindings.iter().any(|it| **it != expected && !(is_level && **it == again)) {
        return false;
    }
    let quorum = queue.kind == QueueType::Quorum.as_str();
    !bindings.is_empty() && (kind != Kind::Business || quorum || in_use(topology, queue))
}

/// Whether the timeout of a business queue is in the topology.
fn in_use(topology: &Topology, queue: &Queue) -> bool {
    let mut timeouts = topology.timeouts.iter();
    timeouts.any(|timeout| is_of(&topology.business_queue(timeout), &queue.name))
}

/// Whether a queue has exactly the properties that some version of this program gives, whatever its type.
fn is_shaped(topology: &Topology, queue: &Queue, kind: Kind<'_>) -> bool {
    let quorum = queue.kind == QueueType::Quorum.as_str();
    if !queue.durable || queue.auto_delete || queue.exclusive {
        return false;
    }
    let has =
        |key: &str, value: &str| queue.arguments.get(key).and_then(Argument::text) == Some(value);
    let number = |key: &str| queue.arguments.get(key).and_then(Argument::integer);
    let safe = !quorum
        || (has("x-dead-letter-strategy", "at-least-once") && has("x-overflow", "reject-publish"));
    let (fits, arguments) = match kind {
        // No version has made one without a mark.
        Kind::Delay(Hold::Digit(_)) => return false,
        Kind::Delay(Hold::Level(level)) => {
            // A version that knows a lead marks what it makes.
            let ttl = level.parse::<Level>().ok().map(|level| level.ttl());
            let fits = has("x-dead-letter-exchange", &topology.due_exchange())
                && ttl.is_some()
                && message_ttl(queue) == ttl;
            (fits && safe, if quorum { 4 } else { 2 })
        }
        Kind::Business => {
            let fits = has("x-dead-letter-exchange", &topology.park_exchange())
                && quorum == number("x-delivery-limit").is_some();
            (fits && safe, if quorum { 4 } else { 1 })
        }
        Kind::Parked => (!quorum || number("x-delivery-limit") == Some(-1), usize::from(quorum)),
    };
    fits && queue.arguments.len() == arguments
}

fn is_a_shard(topology: &Topology, queue: &Queue) -> bool {
    let rest = queue.name.strip_prefix(&topology.name).and_then(|rest| rest.strip_prefix('.'));
    rest.and_then(|rest| rest.split('.').nth(1)).and_then(shard::number).is_some()
}

/// The one binding that this program makes for such a queue.
fn expected(topology: &Topology, queue: &Queue, kind: Kind<'_>) -> Binding {
    let (source, routing_key) = match kind {
        Kind::Delay(Hold::Level(hold) | Hold::Digit(hold)) => {
            (topology.entry_exchange(), format!("{hold}.*"))
        }
        Kind::Business => {
            let rest = queue.name.strip_prefix(&topology.name).unwrap_or_default();
            let timeout = rest.trim_start_matches('.').split('.').next().unwrap_or_default();
            if is_a_shard(topology, queue) {
                let base = format!("{}.{timeout}", topology.name);
                (shard::exchange(&base), "1".to_owned())
            } else {
                (topology.due_exchange(), format!("#.{timeout}"))
            }
        }
        Kind::Parked => (topology.park_exchange(), String::new()),
    };
    Binding {
        source,
        destination: queue.name.clone(),
        to_queue: true,
        routing_key,
        arguments: BTreeMap::new(),
    }
}
