//! The planner: a pure function from what is desired and what is there to a plan.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    Change, Difference, Draining, Drains, Plan, Refusal, Step, count_of,
    generation::{Kind, Replaced, Resolved, kind, resolve},
    snapshot::Snapshot,
};
use crate::{
    objects::{Argument, Binding, Exchange, Queue},
    topology::{
        Topology,
        level::{Level, Ttl},
    },
};

/// The plan that brings `observed` to `topology`. Foreign objects are not looked at.
///
/// `discard` names business queues that may be deleted with their messages.
///
/// The order is the safety argument: a thing is created only after everything it leads to, an old queue is
/// unbound only after the new one is bound, and deleted only when nothing comes in and nothing waits.
/// So a plan that stops after any step leaves a topology that works.
#[must_use]
pub fn diff(topology: &Topology, observed: &Snapshot, discard: &BTreeSet<String>) -> Plan {
    let resolved = resolve(topology, &observed.objects);
    let mut plan = Plan::default();
    additions(observed, &resolved, &mut plan);
    for queue in observed.objects.queues.values() {
        let wanted = resolved.objects.queues.contains_key(&queue.name);
        let kind = kind(topology, queue).filter(|_| !wanted);
        let retirement = kind.map(|kind| Retirement {
            topology,
            observed,
            resolved: &resolved,
            discard,
            queue,
            kind,
        });
        if discard.contains(&queue.name) && !retirement.as_ref().is_some_and(Retirement::removed) {
            plan.refusals.push(Refusal::Kept { queue: queue.name.clone() });
        }
        if let Some(retirement) = retirement {
            retirement.plan(&mut plan);
        }
    }
    // Stable: within a stage and a TTL the order is the one of the maps, so the same input gives the same plan.
    let order = Order::of(topology, &resolved, observed);
    plan.steps.sort_by_key(|step| order.place(&step.change));
    plan.draining.sort_by_key(|draining| order.ttl(&draining.queue));
    plan
}

fn additions(observed: &Snapshot, resolved: &Resolved, plan: &mut Plan) {
    for exchange in resolved.objects.exchanges.values() {
        match observed.objects.exchanges.get(&exchange.name) {
            None => plan.step(Change::CreateExchange(exchange.clone()), String::new()),
            Some(found) => {
                let differences = exchange_differences(exchange, found);
                if !differences.is_empty() {
                    let exchange = exchange.name.clone();
                    plan.refusals.push(Refusal::Exchange { exchange, differences });
                }
            }
        }
    }
    for queue in resolved.objects.queues.values() {
        if !observed.objects.queues.contains_key(&queue.name) {
            let reason = resolved.replaces.get(&queue.name).map(replaces).unwrap_or_default();
            plan.step(Change::CreateQueue(queue.clone()), reason);
        }
    }
    for binding in resolved.objects.bindings.difference(&observed.objects.bindings) {
        plan.step(Change::Bind(binding.clone()), String::new());
    }
}

fn replaces(Replaced { queue, differences }: &Replaced) -> String {
    let list: Vec<String> = differences.iter().map(ToString::to_string).collect();
    format!("replaces {queue}, which cannot be changed:\n          {}", list.join("\n          "))
}

/// A queue of ours that the topology no longer wants.
struct Retirement<'a> {
    topology: &'a Topology,
    observed: &'a Snapshot,
    resolved: &'a Resolved,
    discard: &'a BTreeSet<String>,
    queue: &'a Queue,
    kind: Kind<'a>,
}

impl Retirement<'_> {
    fn plan(&self, plan: &mut Plan) {
        let name = &self.queue.name;
        let messages = self.observed.messages_in(name);
        // What nobody has counted is not given up for lost.
        let discarded =
            self.kind == Kind::Business && messages.is_some() && self.discard.contains(name);
        // One that nothing comes into any more is out of use already: what still waits in it is no reason to
        // refuse the rest.
        if self.removed() && self.incoming().next().is_some() && messages != Some(0) && !discarded {
            plan.refusals.push(Refusal::Occupied { queue: name.clone(), messages });
            return;
        }
        for binding in self.incoming() {
            plan.step(Change::Unbind(binding.clone()), self.reason());
        }
        let fed = matches!(self.drains(), Drains::Fed { .. });
        if !fed && (messages == Some(0) || discarded) {
            let lost = messages.unwrap_or_default();
            let reason =
                if lost == 0 { "retired and empty" } else { "named with --discard" }.to_owned();
            plan.step(Change::DeleteQueue { queue: name.clone(), lost }, reason);
        } else {
            plan.draining.push(Draining { queue: name.clone(), messages, drains: self.drains() });
        }
    }

    /// Whether its timeout is gone from the topology.
    fn removed(&self) -> bool {
        self.kind == Kind::Business && self.successor().is_none()
    }

    /// Bindings through which messages of this topology come in.
    fn incoming(&self) -> impl Iterator<Item = &Binding> {
        let ours = [
            self.topology.entry_exchange(),
            self.topology.due_exchange(),
            self.topology.park_exchange(),
        ];
        let bindings = self.observed.objects.bindings.iter();
        bindings.filter(move |binding| {
            binding.to_queue
                && binding.destination == self.queue.name
                && ours.contains(&binding.source)
        })
    }

    /// An exchange of somebody else that is bound to it: deleting the queue would lose what comes that way.
    fn foreign_source(&self) -> Option<&str> {
        let prefix = format!("{}.", self.topology.name);
        let mut bindings = self.observed.objects.bindings.iter();
        let foreign = bindings.find(|binding| {
            let default_exchange = binding.source.is_empty();
            binding.to_queue
                && binding.destination == self.queue.name
                && !default_exchange
                && !binding.source.starts_with(&prefix)
        });
        foreign.map(|binding| binding.source.as_str())
    }

    /// The queue that took its place, if any.
    fn successor(&self) -> Option<&str> {
        let queues = self.resolved.objects.queues.keys();
        let mut bases = self.topology.objects().queues.into_keys();
        let base =
            bases.find(|base| super::generation::number_of(base, &self.queue.name).is_some())?;
        queues.map(String::as_str).find(|name| super::generation::number_of(&base, name).is_some())
    }

    fn reason(&self) -> String {
        let what = match (self.successor(), self.kind) {
            (Some(successor), _) => format!("{successor} takes its place"),
            (None, Kind::Delay(level)) => {
                format!(
                    "level {level} is no longer in the topology; what is still published to it is parked"
                )
            }
            (None, Kind::Business | Kind::Parked) => {
                "its timeout is no longer in the topology; what still comes due for it is parked"
                    .to_owned()
            }
        };
        match self.observed.messages_in(&self.queue.name) {
            Some(0) => what,
            // Nobody takes a removed queue out of use while something is in it, unless told so.
            Some(_) if self.removed() => format!("{what}; what is in it is given up"),
            messages => format!("{what}; it has {} {}", count_of(messages), self.drains()),
        }
    }

    fn drains(&self) -> Drains {
        if let Some(exchange) = self.foreign_source() {
            return Drains::Fed { exchange: exchange.to_owned() };
        }
        match self.kind {
            Kind::Delay(_) => self.expires(),
            Kind::Business if self.removed() => {
                Drains::Unconsumed { queue: self.queue.name.clone() }
            }
            Kind::Business => Drains::Consumed,
            Kind::Parked => Drains::Parked,
        }
    }

    /// Of a delay queue: as its own arguments say, which may be others than the topology's.
    fn expires(&self) -> Drains {
        let Some(within) = self.ttl() else { return Drains::Never };
        match self.queue.arguments.get("x-dead-letter-exchange") {
            Some(Argument::Text(exchange)) if *exchange == self.topology.due_exchange() => {
                Drains::WhenDue { within }
            }
            exchange => Drains::Elsewhere { exchange: exchange.map(ToString::to_string) },
        }
    }

    /// The TTL as the broker has it, written as a duration.
    fn ttl(&self) -> Option<String> {
        let Argument::Integer(ms) = self.queue.arguments.get("x-message-ttl")? else { return None };
        // A TTL of zero is for brokers, not for levels.
        Some(
            Ttl::from_millis(u64::try_from(*ms).ok()?)
                .map_or_else(|| "0ms".to_owned(), |ttl| ttl.to_string()),
        )
    }
}

/// Which stage of the construction a change belongs to; each stage leads only to earlier ones.
struct Order {
    park_exchange: String,
    entry_exchange: String,
    parked_queue: String,
    /// TTL of each delay queue, so that a plan lists the levels shortest first.
    ttl_ms: BTreeMap<String, u64>,
}

impl Order {
    fn of(topology: &Topology, resolved: &Resolved, observed: &Snapshot) -> Self {
        let ttl = |queue: &Queue| {
            let Some(Kind::Delay(level)) = kind(topology, queue) else { return None };
            let level: Level = level.parse().ok()?;
            Some((queue.name.clone(), level.ttl().as_millis()))
        };
        let parked = topology.parked_queue();
        let queues = resolved.objects.queues.values().chain(observed.objects.queues.values());
        Self {
            park_exchange: topology.park_exchange(),
            entry_exchange: topology.entry_exchange(),
            parked_queue: resolved
                .objects
                .queues
                .keys()
                .find(|name| super::generation::number_of(&parked, name).is_some())
                .cloned()
                .unwrap_or(parked),
            ttl_ms: queues.filter_map(ttl).collect(),
        }
    }

    /// Zero where it is no delay queue.
    fn ttl(&self, queue: &str) -> u64 {
        self.ttl_ms.get(queue).copied().unwrap_or_default()
    }

    fn place(&self, change: &Change) -> (usize, u64) {
        match change {
            Change::CreateExchange(Exchange { name, .. }) if *name == self.park_exchange => (0, 0),
            Change::CreateQueue(Queue { name, .. }) if *name == self.parked_queue => (1, 0),
            Change::Bind(Binding { source, .. }) if *source == self.park_exchange => (2, 0),
            Change::CreateExchange(Exchange { name, .. }) if *name == self.entry_exchange => (7, 0),
            Change::CreateExchange(_) => (3, 0),
            Change::CreateQueue(Queue { name, .. }) => {
                self.ttl_ms.get(name).map_or((4, 0), |ttl_ms| (6, *ttl_ms))
            }
            Change::Bind(Binding { source, destination, .. }) if *source == self.entry_exchange => {
                (8, self.ttl(destination))
            }
            Change::Bind(_) => (5, 0),
            Change::Unbind(Binding { destination, .. }) => (9, self.ttl(destination)),
            Change::DeleteQueue { queue, .. } => (10, self.ttl(queue)),
        }
    }
}

fn exchange_differences(desired: &Exchange, observed: &Exchange) -> Vec<Difference> {
    let mut found = Vec::new();
    let properties = |exchange: &Exchange| {
        [
            ("type", Argument::Text(exchange.kind.clone())),
            ("durable", Argument::Flag(exchange.durable)),
            ("auto-delete", Argument::Flag(exchange.auto_delete)),
        ]
    };
    for ((property, wanted), (_, has)) in properties(desired).into_iter().zip(properties(observed))
    {
        found.extend(Difference::between(property, Some(&wanted), Some(&has)));
    }
    found.extend(Difference::of_arguments(&desired.arguments, &observed.arguments));
    found
}

impl Plan {
    fn step(&mut self, change: Change, reason: String) {
        self.steps.push(Step { change, reason });
    }
}
