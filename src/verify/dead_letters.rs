//! Dead letters: the routing keys with which a queue dead-letters, the blockers, and stuck messages.
//!
//! By default, a queue has 32 slots for dead letters. A dead letter that no queue takes keeps its slot, and the broker retries
//! it every three minutes. When all slots are taken, no message leaves the queue
//! (<https://www.rabbitmq.com/docs/quorum-queues#activating-at-least-once-dead-lettering>).

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
    time::Duration,
};

use super::effective_settings::Effective;
use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::{Objects, Queue, routing::route},
    plan::{
        generation::is_of,
        own_queues::{DelayQueueKind, Kind, role},
        snapshot::{QueueStats, Snapshot},
    },
    text::counted,
    topology::{Timeout, Topology},
};

/// A routing key of dead letters.
pub(super) struct DeadLetterKey {
    pub(super) text: String,
    /// The business queue for messages with this key, or the base name of its shards.
    pub(super) queue: Option<String>,
}

/// Routing keys of the dead letters of a queue: a key per timeout, whatever the level, or the single key that the queue sets.
pub(super) fn dead_letter_keys(
    topology: &Topology,
    objects: &Objects,
    queue: &Queue,
    role: Kind<'_>,
) -> Vec<DeadLetterKey> {
    if let Some(key) = queue.dead_letter_routing_key() {
        return vec![DeadLetterKey { text: key.to_owned(), queue: None }];
    }
    let delays = matches!(role, Kind::Delay(_));
    let mut keys: BTreeSet<(String, Option<String>)> = BTreeSet::new();
    for timeout in &topology.timeouts {
        let base = topology.business_queue(timeout);
        if delays {
            keys.extend(key_out_of(topology, objects, role, timeout).map(|key| (key, Some(base))));
        } else if is_of(&base, &queue.name) {
            keys.insert((Topology::routing_key(&timeout.after, timeout), None));
        }
    }
    keys.into_iter().map(|(text, queue)| DeadLetterKey { text, queue }).collect()
}

/// The routing key that sends a dead letter of a delay queue straight to the due exchange, for a timeout.
fn key_out_of(
    topology: &Topology,
    objects: &Objects,
    role: Kind<'_>,
    timeout: &Timeout,
) -> Option<String> {
    match role {
        Kind::Delay(DelayQueueKind::Level(level)) => Some(format!("{level}.{}", timeout.name)),
        Kind::Delay(DelayQueueKind::Digit(_)) => {
            Some(topology.key_through_the_ladder(objects, timeout))
        }
        Kind::Business | Kind::Parked => None,
    }
}

/// A reason why dead letters reach no queue.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Blocker {
    /// The dead letter exchange does not exist.
    NoExchange {
        /// The missing exchange.
        exchange: String,
    },
    /// Messages with this routing key reach no queue.
    NoRoute {
        /// The dead letter exchange.
        exchange: String,
        /// The routing key, or a pattern of routing keys.
        key: String,
    },
    /// The exchange has no alternate exchange: a message with a routing key that no binding matches stays in its queue.
    NoAlternate {
        /// The dead letter exchange.
        exchange: String,
    },
    /// A queue with `reject-publish` is full. The broker retries a refused message three minutes after its last try; nothing
    /// makes it retry earlier (`rabbit_fifo_dlx_worker:redeliver_messages/1`).
    Full {
        /// The full queue.
        queue: String,
        /// The limit and its value, in words.
        limit: String,
    },
    /// The dead letters are routed back to the queue itself.
    Cycle {
        /// The dead letter exchange.
        exchange: String,
        /// The routing key of the dead letters.
        key: String,
    },
}

impl fmt::Display for Blocker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoExchange { exchange } => write!(f, "exchange {exchange} does not exist"),
            Self::NoRoute { exchange, key } => {
                write!(
                    f,
                    "exchange {exchange} has no queue for {key}, and no alternate exchange takes it"
                )
            }
            Self::NoAlternate { exchange } => write!(
                f,
                "exchange {exchange} has no alternate exchange: messages of a timeout that is not bound stay forever"
            ),
            Self::Full { queue, limit } => {
                write!(f, "queue {queue} is full ({limit}) and refuses more")
            }
            Self::Cycle { exchange, key } => {
                write!(
                    f,
                    "exchange {exchange} leads {key} back to the queue it comes from: a cycle"
                )
            }
        }
    }
}

/// All blockers of the dead letters of `queue` in this reading.
pub fn blockers(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
    queue: &Queue,
) -> BTreeSet<Blocker> {
    let effective = |queue| Effective { queue, stats: stats.get(&queue.name) };
    let Some(exchange) = effective(queue).own_first("dead-letter-exchange") else {
        return BTreeSet::new();
    };
    let exchange = exchange.to_owned();
    let objects = &observed.objects;
    let Some(dlx) = objects.exchanges.get(&exchange) else {
        return BTreeSet::from([Blocker::NoExchange { exchange }]);
    };
    let mut found = BTreeSet::new();
    for key in keys(topology, objects, queue, effective(queue)) {
        let routed = route(objects, &exchange, &key);
        let missing = routed.missing.iter().cloned();
        found.extend(missing.map(|exchange| Blocker::NoExchange { exchange }));
        if routed.queues.is_empty() {
            found.insert(Blocker::NoRoute { exchange: exchange.clone(), key: key.clone() });
        }
        if routed.queues.contains(&queue.name) {
            found.insert(Blocker::Cycle { exchange: exchange.clone(), key });
        }
        let targets = routed.queues.iter().filter_map(|name| objects.queues.get(name));
        found.extend(targets.filter_map(|target| full(effective(target))));
    }
    let reported = found.iter().any(|blocker| matches!(blocker, Blocker::NoRoute { .. }));
    if !reported && dlx.kind != "fanout" && dlx.alternate().is_none() {
        found.insert(Blocker::NoAlternate { exchange });
    }
    found
}

/// Routing keys of the dead letters of a queue; a policy may set one.
fn keys(
    topology: &Topology,
    objects: &Objects,
    queue: &Queue,
    effective: Effective<'_>,
) -> Vec<String> {
    if let Some(key) = effective.own_first("dead-letter-routing-key") {
        return vec![key.to_owned()];
    }
    let Some(role) = role(topology, objects, queue) else { return Vec::new() };
    dead_letter_keys(topology, objects, queue, role).into_iter().map(|key| key.text).collect()
}

/// A queue that rejects messages when it is full. With drop-head, a full queue takes new messages.
fn full(target: Effective<'_>) -> Option<Blocker> {
    let limit = target.full().filter(|_| target.rejects_when_full())?;
    Some(Blocker::Full { queue: target.queue.name.clone(), limit })
}

/// Queues of the topology with unconfirmed dead letters. In a single reading that is normal.
pub fn suspects(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> BTreeSet<String> {
    let queues = observed.objects.queues.values();
    queues
        .filter(|queue| {
            role(topology, &observed.objects, queue).is_some() && held(stats, queue) > 0
        })
        .map(|queue| queue.name.clone())
        .collect()
}

/// Queues with dead letters in both readings. Counts are late, so `apart` must be long enough to see different counts
/// ([`counts_settle`](crate::plan::counts::StatisticsInterval::counts_settle)). `slots`: unconfirmed dead letters per queue.
pub fn stuck(
    topology: &Topology,
    observed: &Snapshot,
    first: &BTreeMap<String, QueueStats>,
    second: &BTreeMap<String, QueueStats>,
    apart: Duration,
    slots: u64,
) -> Vec<Diagnostic> {
    let queues = observed
        .objects
        .queues
        .values()
        .filter(|queue| role(topology, &observed.objects, queue).is_some());
    let found = queues.filter_map(|queue| {
        let (before, now) = (held(first, queue), held(second, queue));
        (before > 0 && now > 0).then(|| {
            let blocked = blockers(topology, observed, second, queue);
            finding(queue, before, now, apart, slots, &blocked)
        })
    });
    found.collect()
}

/// Quorum queues of the topology without statistics: new queues for a few seconds, and queues without a leader.
pub fn unknown(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> Vec<String> {
    let is_unknown = |queue: &&Queue| {
        let numbers = stats.get(&queue.name).and_then(QueueStats::dead_letters);
        queue.kind == "quorum" && numbers.is_none()
    };
    let queues = observed.objects.queues.values().filter(is_unknown);
    let ours = queues.filter(|queue| role(topology, &observed.objects, queue).is_some());
    ours.map(|queue| queue.name.clone()).collect()
}

/// Warns that unknown counts are not zero.
pub fn not_known(queues: &[String]) -> Option<Diagnostic> {
    let message = format!("the broker has no numbers of {}", queues.join(", "));
    let found = || {
        Diagnostic::new("unknown-counts", Severity::Warning, Subject::Area("Topology"), message)
            .because("whether their dead letters are stuck is not known: they have no leader, or its statistics are off")
            .fix(Fix::Text("overdue doctor says which have no leader; then run this again".to_owned()))
    };
    (!queues.is_empty()).then(found)
}

fn held(stats: &BTreeMap<String, QueueStats>, queue: &Queue) -> u64 {
    stats.get(&queue.name).and_then(QueueStats::dead_letters).unwrap_or_default()
}

fn finding(
    queue: &Queue,
    before: u64,
    now: u64,
    apart: Duration,
    slots: u64,
    blocked: &BTreeSet<Blocker>,
) -> Diagnostic {
    let all_held = before >= slots && now >= slots;
    let severity = match (blocked.is_empty(), all_held) {
        (false, _) => Severity::Error,
        (true, true) => Severity::Warning,
        (true, false) => Severity::Note,
    };
    let reason = if blocked.is_empty() {
        "nothing blocks them any more, or there are more than the broker hands on at once; what was held is tried \
         again within three minutes"
            .to_owned()
    } else {
        let list: Vec<String> = blocked.iter().map(ToString::to_string).collect();
        let rest = if all_held { ". Nothing leaves this queue any more" } else { "" };
        format!("{}{rest}", list.join("; "))
    };
    let message = format!(
        "{} {} due and not handed on ({apart:?} earlier: {before})",
        counted(now, "message"),
        if now == 1 { "is" } else { "are" }
    );
    let subject = Subject::Queue(queue.name.clone());
    let found = Diagnostic::new("stuck-dead-letters", severity, subject, message).because(reason);
    if blocked.is_empty() {
        return found;
    }
    found.fix(Fix::Text(
        "fix that; the broker then tries them again within three minutes".to_owned(),
    ))
}
