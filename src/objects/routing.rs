//! The destinations of messages: the one simulation of RabbitMQ's routing (<https://www.rabbitmq.com/docs/exchanges>,
//! `rabbit_exchange:route/3`).
//!
//! The simulation follows a routing key, or a pattern of keys such as `30m.*`. If the pattern or the type of an exchange
//! does not decide a match, the match counts as possible.

use std::collections::BTreeSet;

use super::{Binding, Exchange, Objects, Queue, shard::CONSISTENT_HASH};

/// Possible destinations of a message.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Routed {
    /// Queues that may get the message. `Objects` may lack one of them, if bindings were read a moment after the queues.
    pub queues: BTreeSet<String>,
    /// Exchanges on the route that do not exist.
    pub missing: BTreeSet<String>,
}

/// Follows a message that is published to `exchange`, through bindings between exchanges and alternate exchanges.
///
/// `keys` is the routing key, or a pattern of keys.
pub fn route(objects: &Objects, exchange: &str, keys: &str) -> Routed {
    let mut routed = Routed::default();
    let mut seen = BTreeSet::new();
    let mut next = vec![exchange];
    while let Some(name) = next.pop() {
        if !seen.insert(name) {
            continue;
        }
        if name.is_empty() {
            routed.queues.extend(by_name(objects, keys));
            continue;
        }
        let Some(exchange) = objects.exchanges.get(name) else {
            routed.missing.insert(name.to_owned());
            continue;
        };
        let mut unroutable = true;
        for binding in from(objects, name) {
            let matched = matches(exchange, binding, keys);
            unroutable &= matched != Match::Always;
            if matched == Match::Never {
                continue;
            }
            if binding.to_queue {
                routed.queues.insert(binding.destination.clone());
            } else {
                next.push(&binding.destination);
            }
        }
        // The broker checks only whether the exchange itself has a route, not whether the route ends at a queue.
        if unroutable {
            next.extend(exchange.alternate());
        }
    }
    routed
}

/// The bindings of an exchange: the set is sorted by source.
fn from<'a>(objects: &'a Objects, exchange: &'a str) -> impl Iterator<Item = &'a Binding> {
    let first = Binding { source: exchange.to_owned(), ..Binding::default() };
    objects.bindings.range(first..).take_while(move |binding| binding.source == exchange)
}

/// `objects` without foreign queues and bindings that none of our messages can reach, and that do not route to our objects.
/// In a shared virtual host most objects are foreign.
pub(crate) fn near(objects: &Objects, is_ours: impl Fn(&str) -> bool) -> Objects {
    let Objects { exchanges, queues, bindings } = objects;
    let mut sources: BTreeSet<&str> = BTreeSet::new();
    let mut destinations: BTreeSet<&str> = BTreeSet::new();
    let ours = exchanges.keys().chain(queues.keys()).filter(|name| is_ours(name));
    let mut next: Vec<&str> = ours.map(String::as_str).collect();
    // A queue and an exchange may have the same name: both are followed.
    while let Some(name) = next.pop() {
        if !destinations.insert(name) {
            continue;
        }
        next.extend(queues.get(name).and_then(Queue::dead_letter_exchange));
        if let Some(exchange) = exchanges.get(name) {
            sources.insert(name);
            next.extend(exchange.alternate());
            next.extend(from(objects, name).map(|binding| binding.destination.as_str()));
        }
    }
    let is_near = |it: &&Binding| {
        let Binding { source, destination, .. } = it;
        sources.contains(source.as_str())
            || destinations.contains(destination.as_str())
            || it.is_by_a_mark()
    };
    let bindings = bindings.iter().filter(is_near).cloned().collect();
    let queues = queues.iter().filter(|(name, queue)| {
        let mut names = queue.dead_letter_exchange().into_iter().chain([name.as_str()]);
        names.any(|name| destinations.contains(name))
    });
    let queues = queues.map(|(name, queue)| (name.clone(), queue.clone())).collect();
    Objects { exchanges: exchanges.clone(), queues, bindings }
}

/// Follows the dead letters of `queue`; `None` without a dead letter exchange.
pub(crate) fn dead_letters(objects: &Objects, queue: &Queue) -> Option<Routed> {
    let exchange = queue.dead_letter_exchange()?;
    let mut routed = Routed::default();
    for keys in dead_letter_keys(objects, queue) {
        let Routed { queues, missing } = route(objects, exchange, keys);
        routed.queues.extend(queues);
        routed.missing.extend(missing);
    }
    Some(routed)
}

/// Patterns of the routing keys of `queue`'s dead letters: the key that the queue sets, or the keys of its messages.
pub(crate) fn dead_letter_keys<'a>(objects: &'a Objects, queue: &'a Queue) -> BTreeSet<&'a str> {
    if let Some(key) = queue.dead_letter_routing_key() {
        return BTreeSet::from([key]);
    }
    let bindings = objects.bindings.iter();
    let own = bindings.filter(|binding| {
        binding.to_queue && binding.destination == queue.name && binding.mark_of().is_none()
    });
    let keys = own.filter_map(|binding| {
        // The default exchange binds every queue by its name.
        let source = objects.exchanges.get(&binding.source).filter(|x| !x.name.is_empty())?;
        let by_key = matches!(source.routing_type(), "topic" | "direct");
        Some(if by_key { binding.routing_key.as_str() } else { ANY })
    });
    let keys: BTreeSet<&str> = keys.collect();
    if keys.is_empty() { BTreeSet::from([ANY]) } else { keys }
}

/// The pattern that every routing key matches.
const ANY: &str = "#";

/// Whether messages match a binding.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Match {
    Never,
    /// Some of them, or unknown: headers exchanges, and types of plugins.
    Perhaps,
    Always,
}

fn matches(exchange: &Exchange, binding: &Binding, keys: &str) -> Match {
    let bound = binding.routing_key.as_str();
    match exchange.routing_type() {
        // Each message matches at least one of its bindings.
        "fanout" | CONSISTENT_HASH => Match::Always,
        "topic" if !overlap(bound, keys) => Match::Never,
        "topic" if bound == ANY || bound == keys || is_key(keys) => Match::Always,
        "direct" if bound == keys => Match::Always,
        "direct" if is_key(keys) || !overlap(bound, keys) => Match::Never,
        _ => Match::Perhaps,
    }
}

/// Whether this is a routing key, not a pattern of several keys.
fn is_key(keys: &str) -> bool {
    !keys.contains(['*', '#'])
}

/// Queues that the default exchange routes to: their name is the routing key.
fn by_name(objects: &Objects, keys: &str) -> BTreeSet<String> {
    let names = objects.queues.keys();
    let fits = |name: &&String| *name == keys || (!is_key(keys) && overlap(name, keys));
    names.filter(fits).cloned().collect()
}

/// Whether some routing key matches both patterns. A pattern without `*` and `#` is a routing key, so this also tests
/// whether a key matches a pattern.
pub fn overlap(one: &str, other: &str) -> bool {
    let (one, other) = (words(one), words(other));
    // meets[j]: whether the rest of `one` from this word and the rest of `other` from word j have a key in common. Computed
    // from the end, so that patterns with many `#` cost no more than their lengths multiplied.
    let mut meets: Vec<bool> = (0..=other.len()).map(|j| only_hashes(&other, j)).collect();
    for word in one.iter().rev() {
        let mut now = vec![false; meets.len()];
        for j in (0..meets.len()).rev() {
            let next = other.get(j).copied();
            let rest = now.get(j + 1).copied().unwrap_or(false);
            let both = meets.get(j + 1).copied().unwrap_or(false);
            let skipped = meets.get(j).copied().unwrap_or(false);
            let here = match (*word, next) {
                ("#", _) | (_, Some("#")) => skipped || rest,
                (_, None) => false,
                (word, Some(next)) => both && (word == next || word == "*" || next == "*"),
            };
            if let Some(slot) = now.get_mut(j) {
                *slot = here;
            }
        }
        meets = now;
    }
    meets.first().copied().unwrap_or(false)
}

/// The broker treats the empty routing key as no words.
fn words(pattern: &str) -> Vec<&str> {
    if pattern.is_empty() { Vec::new() } else { pattern.split('.').collect() }
}

fn only_hashes(words: &[&str], from: usize) -> bool {
    words.iter().skip(from).all(|word| *word == "#")
}
