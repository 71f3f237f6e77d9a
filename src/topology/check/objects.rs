//! Rules about broker objects, desired or observed: what a topology becomes keeps them all, by construction, and
//! what somebody changes on a broker may not. Pure, so `verify` runs them on what it reads.

mod alternate;
mod at_least_once;
mod cycle;
mod routing;

use super::Severity;
use crate::objects::{Argument, Exchange, Objects, Queue};

/// Something about an object that loses, stops or doubles messages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Defect {
    /// Name of the rule, stable.
    pub rule: &'static str,
    /// What it means.
    pub severity: Severity,
    /// The queue or exchange it is about.
    pub object: String,
    /// What is wrong, and why.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// A named check of objects.
#[derive(Clone, Copy, Debug)]
pub struct ObjectRule {
    /// Its name, stable.
    pub name: &'static str,
    /// What its defects mean.
    pub severity: Severity,
    run: fn(&Objects) -> Vec<Fault>,
}

/// A defect of a rule that knows its own name and severity.
struct Fault {
    object: String,
    message: String,
    help: String,
}

const fn rule(
    severity: Severity,
    name: &'static str,
    run: fn(&Objects) -> Vec<Fault>,
) -> ObjectRule {
    ObjectRule { name, severity, run }
}

/// Every rule about objects, in the order in which they are reported.
pub const RULES: &[ObjectRule] = &[
    rule(Severity::Error, "dead-letter-cycle", cycle::dead_letter),
    rule(Severity::Error, "alternate-exchange", alternate::missing),
    rule(Severity::Error, "at-least-once", at_least_once::incomplete),
    rule(Severity::Error, "routing-nowhere", routing::nowhere),
    rule(Severity::Warning, "routing-overlap", routing::overlaps),
];

/// Runs every rule about objects. They see arguments, not policies, and take a foreign exchange for a missing one:
/// give them what belongs to one topology.
#[must_use]
pub fn check(objects: &Objects) -> Vec<Defect> {
    let defects = |rule: &ObjectRule| {
        let ObjectRule { name, severity, run } = *rule;
        run(objects).into_iter().map(move |Fault { object, message, help }| Defect {
            rule: name,
            severity,
            object,
            message,
            help,
        })
    };
    RULES.iter().flat_map(defects).collect()
}

/// The text of an argument; `None` where it is not set, or no text.
fn text<'a>(
    arguments: &'a std::collections::BTreeMap<String, Argument>,
    key: &str,
) -> Option<&'a str> {
    match arguments.get(key) {
        Some(Argument::Text(text)) => Some(text),
        _ => None,
    }
}

impl Queue {
    /// Whether its messages dead-letter by themselves.
    fn expires(&self) -> bool {
        self.arguments.contains_key("x-message-ttl")
    }
}

/// Whether a message with a key of pattern `keys` goes through a binding of `exchange` with the key `bound`.
/// Of kinds other than topic, direct and fanout it is not known, and held possible.
fn passes(exchange: &Exchange, bound: &str, keys: &str) -> bool {
    match exchange.kind.as_str() {
        "topic" => crate::objects::topic::overlap(bound, keys),
        "direct" => {
            bound == keys
                || (keys.contains(['*', '#']) && crate::objects::topic::overlap(bound, keys))
        }
        _ => true,
    }
}

/// Patterns of the routing keys that `queue` dead-letters with: as they came in, unless it sets one of its own.
/// `#` where nothing is bound to it.
fn keys_from<'a>(objects: &'a Objects, queue: &'a Queue) -> Vec<&'a str> {
    if let Some(key) = text(&queue.arguments, "x-dead-letter-routing-key") {
        return vec![key];
    }
    let bindings = objects.bindings.iter();
    let own = bindings.filter(|binding| binding.to_queue && binding.destination == queue.name);
    let keys = own.filter_map(|binding| {
        // The default exchange binds every queue by its name.
        let source =
            objects.exchanges.get(&binding.source).filter(|_| !binding.source.is_empty())?;
        Some(if source.kind == "fanout" { "#" } else { binding.routing_key.as_str() })
    });
    let keys: Vec<&str> = keys.collect();
    if keys.is_empty() { vec!["#"] } else { keys }
}

/// Queues that a message with a key of `keys` may get to from `exchange`, over other exchanges too, and without
/// the alternate exchanges.
fn reached<'a>(objects: &'a Objects, exchange: &'a str, keys: &[&str]) -> Vec<&'a Queue> {
    let mut seen = vec![exchange];
    let mut queues = Vec::new();
    let mut next = 0;
    while let Some(source) = seen.get(next).copied() {
        next += 1;
        if source.is_empty() {
            // The default exchange routes to the queue that has the key for a name.
            queues.extend(keys.iter().filter_map(|key| objects.queues.get(*key)));
            continue;
        }
        let Some(exchange) = objects.exchanges.get(source) else { continue };
        let bindings = objects.bindings.iter().filter(|binding| binding.source == source);
        let open = bindings
            .filter(|binding| keys.iter().any(|keys| passes(exchange, &binding.routing_key, keys)));
        for binding in open {
            if binding.to_queue {
                queues.extend(objects.queues.get(&binding.destination));
            } else if !seen.contains(&binding.destination.as_str()) {
                seen.push(&binding.destination);
            }
        }
    }
    queues.sort_by_key(|queue| &queue.name);
    queues.dedup_by_key(|queue| &queue.name);
    queues
}
