//! A change as two topologies, and what is published before, meanwhile and afterwards.

use std::collections::BTreeMap;

use super::{
    kind::{ChangeKind, DELIVERY_LIMITS},
    size::Levels,
};
use crate::topology::{
    Timeout, Topology,
    file::{DEFAULT_EFFECT, QueueType},
    lead::Lead,
    level::{Level, Ttl},
    strategy::Strategy,
};

/// A change that is to be made while messages wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scenario {
    /// As in `--change`.
    pub kind: ChangeKind,
    /// The topology that the messages are published into.
    pub before: Topology,
    /// The topology that is applied while they wait.
    pub after: Topology,
    /// How the messages that wait are published.
    pub waiting: MessageRoute,
    /// How an order service publishes before it knows of the change.
    pub old: Vec<MessageRoute>,
    /// How it publishes when it knows.
    pub new: Vec<MessageRoute>,
    /// How messages come into a business queue that is to be removed, before anything else happens.
    pub removed: Option<RemovedTimeout>,
}

/// How a message is published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MessageRoute {
    /// `<level>.<timeout>`.
    pub routing_key: String,
    /// The TTL of the level.
    pub ttl: Ttl,
    /// Whether the topology still knows level and timeout after the change; otherwise it is parked.
    pub stays: bool,
}

/// A timeout that is removed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RemovedTimeout {
    /// Its business queue.
    pub queue: String,
    /// How messages come into it at once.
    pub route: MessageRoute,
}

impl Scenario {
    /// The scenario of `kind`, in a topology called `name`.
    #[must_use]
    pub fn new(kind: ChangeKind, name: &str, levels: &Levels) -> Self {
        let Levels { level, half, soon } = levels;
        let plain = Draft {
            name,
            levels: vec![level],
            after: level,
            queue_type: QueueType::Quorum,
            delivery_limit: DELIVERY_LIMITS.0,
            timeouts: &["unpaid"],
        };
        let shorter = Draft { levels: vec![half], after: half, ..plain.clone() };
        let classic = Draft { queue_type: QueueType::Classic, ..plain.clone() };
        let two = Draft { timeouts: &["unpaid", "unshipped"], ..plain.clone() };
        let (before, after) = match kind {
            ChangeKind::Combined => (classic, shorter),
            ChangeKind::LevelRemoved => (Draft { levels: vec![half, level], ..plain }, shorter),
            ChangeKind::LevelTtl => (plain, shorter),
            ChangeKind::ClassicToQuorum => (classic, plain),
            ChangeKind::QuorumToClassic => (plain, classic),
            ChangeKind::DeliveryLimit => {
                (plain.clone(), Draft { delivery_limit: DELIVERY_LIMITS.1, ..plain })
            }
            ChangeKind::TimeoutAdded => (plain, two),
            ChangeKind::TimeoutRemoved => {
                let levels = vec![soon, level];
                (Draft { levels: levels.clone(), ..two }, Draft { levels, ..plain })
            }
        };
        Self::between(kind, before.topology(), after.topology(), soon)
    }

    fn between(kind: ChangeKind, before: Topology, after: Topology, soon: &Level) -> Self {
        let route = |level: &Level, timeout: &Timeout| MessageRoute {
            routing_key: Topology::routing_key(level, timeout),
            ttl: after.lead.lets_go(level),
            stays: after.levels.contains(level) && after.timeout(&timeout.name).is_some(),
        };
        let routes = |topology: &Topology| -> Vec<MessageRoute> {
            topology.timeouts.iter().map(|timeout| route(&timeout.after, timeout)).collect()
        };
        let (old, new) = (routes(&before), routes(&after));
        let removed = before.timeouts.iter().find(|timeout| after.timeout(&timeout.name).is_none());
        let removed = removed.map(|timeout| RemovedTimeout {
            queue: before.business_queue(timeout),
            route: route(soon, timeout),
        });
        // The first timeout is in both topologies.
        let waiting = route(&before.timeouts[0].after, &before.timeouts[0]);
        Self { kind, before, after, waiting, old, new, removed }
    }

    /// The base names of every business queue, before or after.
    #[must_use]
    pub fn business_queues(&self) -> Vec<String> {
        let topologies = [&self.before, &self.after];
        let mut queues: Vec<String> = topologies
            .into_iter()
            .flat_map(|topology| topology.timeouts.iter().map(|t| topology.business_queue(t)))
            .collect();
        queues.sort();
        queues.dedup();
        queues
    }
}

/// What the topologies of the scenarios differ in.
#[derive(Clone)]
struct Draft<'a> {
    name: &'a str,
    levels: Vec<&'a Level>,
    after: &'a Level,
    queue_type: QueueType,
    delivery_limit: i64,
    timeouts: &'a [&'a str],
}

impl Draft<'_> {
    fn topology(self) -> Topology {
        let timeout = |name: &&str| Timeout {
            name: (*name).to_owned(),
            after: self.after.clone(),
            after_by_category: BTreeMap::new(),
            effect: DEFAULT_EFFECT.to_owned(),
        };
        Topology {
            name: self.name.to_owned(),
            strategy: Strategy::default(),
            lead: Lead::NONE,
            timeouts: self.timeouts.iter().map(timeout).collect(),
            levels: self.levels.into_iter().cloned().collect(),
            queue_type: self.queue_type,
            delivery_limit: self.delivery_limit,
            retry: Vec::new(),
            compat: None,
        }
    }
}
