//! A broker as a pure function on `Snapshot`: what a change does to it, and where a message goes.

use std::collections::BTreeSet;

use overdue::internals::{
    objects::{Argument, Binding, CONSISTENT_HASH, Objects, exchange_mark, mark},
    plan::{Change, Clock, Plan, Snapshot, diff},
    topology::Topology,
};

/// The type of the exchange of the delayed message plugin.
pub(crate) const DELAYED: &str = "x-delayed-message";

/// The plan without anything to discard.
pub(crate) fn plan(topology: &Topology, broker: &Snapshot) -> Plan {
    diff(topology, broker, &BTreeSet::new())
}

/// A broker with these objects, and nothing in its queues.
pub(crate) fn empty_queues(objects: Objects) -> Snapshot {
    let messages = objects.queues.keys().map(|queue| (queue.clone(), 0)).collect();
    let holding = objects.exchanges.values().filter(|it| it.kind == DELAYED);
    let delayed = holding.map(|it| (it.name.clone(), 0)).collect();
    Snapshot { objects, messages, delayed, ..Snapshot::default() }
}

/// The same broker long after everything that was done to it.
pub(crate) fn much_later(broker: Snapshot) -> Snapshot {
    let now_s = broker.clock.map_or(0, |clock| clock.now_s) + 1_000_000_000;
    Snapshot { clock: Some(Clock { now_s, stays_s: 611 }), ..broker }
}

/// Carries out one change, as strict as the broker: bindings need both ends, names are taken once.
pub(crate) fn apply(broker: &mut Snapshot, change: &Change) {
    let Snapshot { objects, messages, delayed, clock, .. } = broker;
    match change {
        Change::CreateExchange(exchange) => {
            let before = objects.exchanges.insert(exchange.name.clone(), exchange.clone());
            assert_eq!(before, None, "exchange declared although it exists");
            if exchange.kind == DELAYED {
                delayed.insert(exchange.name.clone(), 0);
            }
            let marks = objects.exchanges.keys();
            let marks: Vec<Binding> = marks
                .filter_map(|it| exchange_mark(it.strip_suffix(".owned")?, &exchange.name))
                .collect();
            objects.bindings.extend(marks);
        }
        Change::CreateQueue(queue) => {
            let before = objects.queues.insert(queue.name.clone(), queue.clone());
            assert_eq!(before, None, "queue declared although it exists");
            messages.insert(queue.name.clone(), 0);
            // Whoever carries it out marks the queue as well; the exchange is there by then.
            let exchanges = objects.exchanges.keys();
            let marks = exchanges.filter_map(|it| mark(it.strip_suffix(".owned")?, &queue.name));
            let marks: Vec<Binding> = marks.collect();
            objects.bindings.extend(marks);
        }
        Change::Bind(binding) => {
            assert!(objects.exchanges.contains_key(&binding.source), "404: no source: {change}");
            let destination = &binding.destination;
            let there = if binding.to_queue {
                objects.queues.contains_key(destination)
            } else {
                objects.exchanges.contains_key(destination)
            };
            assert!(there, "404: no destination: {change}");
            assert!(objects.bindings.insert(binding.clone()), "bound already: {change}");
        }
        Change::Leave(mark) => {
            let since_s = clock.map_or(0, |clock| clock.now_s);
            objects.bindings.insert(mark.leaving(since_s));
        }
        Change::Unbind(binding) => {
            assert!(objects.bindings.remove(binding), "404: not bound: {change}");
        }
        Change::DeleteExchange { exchange } => {
            assert!(objects.exchanges.remove(exchange).is_some(), "404: no exchange: {change}");
            assert_eq!(delayed.remove(exchange).unwrap_or_default(), 0, "lost: {change}");
            let ends = |it: &Binding| {
                it.source == *exchange || !it.to_queue && it.destination == *exchange
            };
            objects.bindings.retain(|binding| !ends(binding));
        }
        Change::DeleteQueue { queue, lost } => {
            assert!(objects.queues.remove(queue).is_some(), "404: no queue: {change}");
            // The broker takes the bindings away with it.
            objects.bindings.retain(|binding| !binding.to_queue || binding.destination != *queue);
            assert_eq!(messages.remove(queue), Some(*lost), "what it holds is said: {change}");
        }
    }
}

/// The broker after all steps of a plan; a refused plan changes nothing.
pub(crate) fn applied(observed: &Snapshot, plan: &Plan) -> Snapshot {
    let mut broker = observed.clone();
    if plan.refusals.is_empty() {
        plan.steps.iter().for_each(|step| apply(&mut broker, &step.change));
    }
    broker
}

/// The queues a message may reach, through other exchanges, and the alternate exchange where no binding matches.
/// `None` where it is published, or passed on, to an exchange that does not exist.
pub(crate) fn route(objects: &Objects, exchange: &str, key: &str) -> Option<BTreeSet<String>> {
    routed(objects, exchange, key, None)
}

/// The queues that a message with this hash reaches: of several shards one. Without a hash, all that it may reach.
pub(crate) fn routed(
    objects: &Objects,
    exchange: &str,
    key: &str,
    hash: Option<u64>,
) -> Option<BTreeSet<String>> {
    let exchange = objects.exchanges.get(exchange)?;
    let matches = |pattern: &str| match exchange.kind.as_str() {
        "fanout" | CONSISTENT_HASH => true,
        // The plugin's routes by the type that it was declared with, when the delay is over.
        "topic" | DELAYED => topic_matches(pattern, key),
        kind => panic!("the model knows no exchange of type {kind}"),
    };
    let bindings = objects.bindings.iter().filter(|binding| binding.source == exchange.name);
    let mut taken: Vec<&Binding> = bindings.filter(|it| matches(&it.routing_key)).collect();
    if let Some(hash) = hash.filter(|_| exchange.kind == CONSISTENT_HASH && !taken.is_empty()) {
        let count = u64::try_from(taken.len()).expect("few");
        taken = vec![taken[usize::try_from(hash % count).expect("few")]];
    }
    match text(exchange.arguments.get("alternate-exchange")) {
        Some(alternate) if taken.is_empty() => routed(objects, alternate, key, hash),
        _ => {
            let mut queues = BTreeSet::new();
            for Binding { destination, to_queue, .. } in taken {
                if *to_queue {
                    queues.insert(destination.clone());
                } else {
                    queues.extend(routed(objects, destination, key, hash)?);
                }
            }
            Some(queues)
        }
    }
}

/// The dead letter exchange of a queue.
pub(crate) fn dead_letter_exchange<'a>(objects: &'a Objects, queue: &str) -> Option<&'a str> {
    text(objects.queues.get(queue)?.arguments.get("x-dead-letter-exchange"))
}

/// The value of an argument that is a text.
pub(crate) fn text(argument: Option<&Argument>) -> Option<&str> {
    match argument {
        Some(Argument::Text(text)) => Some(text),
        _ => None,
    }
}

/// Topic matching by words: `*` is one word, `#` any number, zero included.
///
/// Source: <https://www.rabbitmq.com/tutorials/tutorial-five-python>
fn topic_matches(pattern: &str, key: &str) -> bool {
    fn words(pattern: &[&str], key: &[&str]) -> bool {
        match (pattern, key) {
            ([], []) => true,
            (["#", rest @ ..], _) => (0..=key.len()).any(|taken| words(rest, &key[taken..])),
            (["*", rest @ ..], [_, key @ ..]) => words(rest, key),
            ([word, rest @ ..], [first, key @ ..]) => word == first && words(rest, key),
            _ => false,
        }
    }
    let (pattern, key): (Vec<_>, Vec<_>) = (pattern.split('.').collect(), key.split('.').collect());
    words(&pattern, &key)
}

#[test]
fn topic_matching_is_the_brokers() {
    let table = [
        ("*.orange.*", "quick.orange.rabbit", true),
        ("*.orange.*", "quick.orange.new.rabbit", false),
        ("*.*.rabbit", "lazy.orange.rabbit", true),
        ("lazy.#", "lazy.orange.new.rabbit", true),
        ("lazy.#", "lazy", true),
        ("lazy.#", "quick.lazy", false),
        ("#", "anything.at.all", true),
        ("#.unpaid", "30m.unpaid", true),
        ("#.unpaid", "unpaid", true),
        ("#.unpaid", "30m.unpaid.more", false),
        ("#.unpaid", "30m.notunpaid", false),
        ("30m.*", "30m.unpaid", true),
        ("30m.*", "30m", false),
        ("30m.*", "130m.unpaid", false),
    ];
    for (pattern, key, expected) in table {
        assert_eq!(topic_matches(pattern, key), expected, "pattern {pattern}, key {key}");
    }
}
