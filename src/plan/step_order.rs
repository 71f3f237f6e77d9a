//! The order of the steps with which a topology is built and removed.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    generation::{Resolved, number_of},
    own_queues::{Kind, kind},
    snapshot::Snapshot,
    step::Change,
};
use crate::{
    objects::{Binding, Exchange, Objects, Queue},
    topology::Topology,
};

/// The stages of a plan, first to last. An object of a stage routes only to objects of earlier stages, so that a message finds its
/// way whatever stage a plan stops in. Stages at the end remove objects to which no message is routed any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The exchange of the marks, and the exchange in front of the parking lot. Messages without another route go there.
    ParkExchange,
    /// The parking lot.
    ParkingLot,
    /// The binding of the parking lot: from this stage on, messages can be parked.
    ParkBinding,
    /// All exchanges that no other stage names, e.g. for due messages (its alternate exchange parks them) and for events.
    InnerExchanges,
    /// The queues that workers consume; they dead-letter to the parking lot.
    BusinessQueues,
    /// Bindings of business queues, and all bindings that no other stage names: due messages arrive.
    DueBindings,
    /// The queues that delay messages.
    DelayQueues,
    /// The exchanges that order services publish to. Messages without a level are parked.
    EntryExchange,
    /// Bindings of delay queues: messages enter the levels.
    EntryBindings,
    /// Marks of objects that existed without a mark.
    Adoption,
    /// Marks of leaving queues, and bindings of retired queues. Bindings between exchanges are the first, so that no
    /// shard gets messages of another shard. The replacements are bound in an earlier stage.
    Unbind,
    /// Empty queues to which no message is routed any more.
    Delete,
    /// Exchanges to which no message is published any more, after the queues that route to them.
    DeleteExchanges,
}

/// The position of each change in a plan.
pub(super) struct Order {
    park_exchange: String,
    mark_exchange: String,
    entry_exchange: String,
    /// The exchange of `[compat.x-delay]`, whose name another program chose.
    taken_over: Option<String>,
    parked_queue: String,
    /// The exchanges of shards, of present and of former ones.
    shards: BTreeSet<String>,
    /// TTL of each delay queue, so that the shortest TTL comes first.
    ttl_ms: BTreeMap<String, i64>,
    /// The shortest TTL behind each exchange with delay queues, so that each place of a ladder is bound before the next larger
    /// place routes to it. An exchange can have the name of a queue.
    delaying: BTreeMap<String, i64>,
}

impl Order {
    pub(super) fn of(topology: &Topology, resolved: &Resolved, observed: &Snapshot) -> Self {
        let ttl = |objects, queue: &Queue| {
            let delays = matches!(kind(topology, objects, queue), Some(Kind::Delay(_)));
            delays.then(|| (queue.name.clone(), queue.message_ttl_ms().unwrap_or_default()))
        };
        let parked = topology.parked_queue();
        let both = [&observed.objects, &resolved.objects].into_iter();
        let queues =
            both.flat_map(|objects| objects.queues.values().map(move |queue| (objects, queue)));
        let mut names = resolved.objects.queues.keys();
        let parked_queue = names.find(|name| number_of(&parked, name).is_some()).cloned();
        let ttl_ms: BTreeMap<String, i64> =
            queues.filter_map(|(objects, queue)| ttl(objects, queue)).collect();
        let delaying = shortest_by_exchange(&resolved.objects, &ttl_ms);
        Self {
            park_exchange: topology.park_exchange(),
            mark_exchange: topology.mark_exchange(),
            entry_exchange: topology.entry_exchange(),
            taken_over: topology.compat.as_ref().map(|it| it.exchange.clone()),
            parked_queue: parked_queue.unwrap_or(parked),
            shards: topology.timeouts.iter().map(|it| topology.shards_exchange(it)).collect(),
            ttl_ms,
            delaying,
        }
    }

    /// The stage of a change and, within the stage, the TTL of its delay queue; zero for a change without a delay queue.
    pub(super) fn place(&self, change: &Change) -> (Stage, i64) {
        (self.stage(change), self.ttl_of(change))
    }

    fn ttl_of(&self, change: &Change) -> i64 {
        match change {
            // An exchange is created after its alternate exchange.
            Change::CreateExchange(exchange) => {
                i64::from(exchange.alternate().is_some_and(|it| it != self.park_exchange))
            }
            // An exchange of shards is bound after its shards.
            Change::Bind(Binding { destination, to_queue: false, .. })
                if self.shards.contains(destination) =>
            {
                1
            }
            // Bindings between exchanges are removed before bindings of queues.
            Change::Unbind(Binding { to_queue: false, .. }) => -1,
            // On a ladder, messages with digit 0 take this binding to the next place.
            Change::Bind(Binding { source, to_queue: false, .. }) => {
                self.delaying.get(source).copied().unwrap_or_default()
            }
            change => self.ttl_ms(change.queue()),
        }
    }

    /// The TTL of a delay queue in milliseconds; zero for any other queue.
    pub(super) fn ttl_ms(&self, queue: &str) -> i64 {
        self.ttl_ms.get(queue).copied().unwrap_or_default()
    }

    fn is_taken_over(&self, exchange: &str) -> bool {
        self.taken_over.as_deref() == Some(exchange)
    }

    fn stage(&self, change: &Change) -> Stage {
        match change {
            Change::CreateExchange(Exchange { name, .. }) => {
                if *name == self.park_exchange || *name == self.mark_exchange {
                    Stage::ParkExchange
                } else if *name == self.entry_exchange || self.is_taken_over(name) {
                    Stage::EntryExchange
                } else {
                    Stage::InnerExchanges
                }
            }
            Change::CreateQueue(Queue { name, .. }) => {
                if *name == self.parked_queue {
                    Stage::ParkingLot
                } else if self.ttl_ms.contains_key(name) {
                    Stage::DelayQueues
                } else {
                    Stage::BusinessQueues
                }
            }
            Change::Bind(Binding { source, .. }) => {
                if *source == self.mark_exchange {
                    Stage::Adoption
                } else if *source == self.park_exchange {
                    Stage::ParkBinding
                } else if self.delaying.contains_key(source)
                    || *source == self.entry_exchange
                    || self.is_taken_over(source)
                {
                    Stage::EntryBindings
                } else {
                    Stage::DueBindings
                }
            }
            Change::Leave(_) | Change::Unbind(_) => Stage::Unbind,
            Change::DeleteQueue { .. } => Stage::Delete,
            Change::DeleteExchange { .. } => Stage::DeleteExchanges,
        }
    }
}

/// The shortest TTL among the queues of each exchange.
fn shortest_by_exchange(
    objects: &Objects,
    ttl_ms: &BTreeMap<String, i64>,
) -> BTreeMap<String, i64> {
    let mut shortest: BTreeMap<String, i64> = BTreeMap::new();
    for binding in objects.bindings.iter().filter(|it| it.to_queue && it.mark_of().is_none()) {
        let Some(ttl) = ttl_ms.get(&binding.destination).copied() else { continue };
        let known = shortest.entry(binding.source.clone()).or_insert(ttl);
        *known = ttl.min(*known);
    }
    shortest
}
