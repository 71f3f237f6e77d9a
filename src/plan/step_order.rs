//! The order in which a topology is built and taken down.

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

/// The stages of a plan, first to last. What is made in one leads only to what was made in an earlier one, so that a
/// message finds its way whatever stage the plan is stopped in; taken away is what nothing leads to any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// The exchange of the marks, and the one in front of the parking lot: the way out for everything that has no
    /// other.
    ParkExchange,
    /// The parking lot.
    ParkingLot,
    /// The parking lot is bound: from now on, what is parked arrives.
    ParkBinding,
    /// The exchange of what is due and the exchange of events; the alternate of the first is the one of the parking lot.
    InnerExchanges,
    /// The queues that workers consume; they dead-letter to the parking lot.
    BusinessQueues,
    /// Business queues are bound: what is due arrives.
    DueBindings,
    /// The queues that hold messages until they are due.
    DelayQueues,
    /// The exchange that order services publish to; what has no level yet is parked.
    EntryExchange,
    /// Delay queues are bound: the levels are open.
    EntryBindings,
    /// Marks of queues that were there without one.
    Adoption,
    /// Queues that begin to leave, and bindings of queues that are taken out of use, first that of the exchange of their shards;
    /// what takes their place is bound by now.
    Unbind,
    /// Queues that nothing comes into any more.
    Delete,
    /// Exchanges that nothing is published to any more, after the queues that led to them.
    DeleteExchanges,
}

/// Where each change of a plan stands.
pub(super) struct Order {
    park_exchange: String,
    mark_exchange: String,
    entry_exchange: String,
    /// The exchange whose name others have chosen, where there is one.
    taken_over: Option<String>,
    parked_queue: String,
    /// Exchanges in front of the shards of a timeout, whether it has shards or had.
    shards: BTreeSet<String>,
    /// TTL of each delay queue, so that a plan lists the shortest first.
    ttl_ms: BTreeMap<String, i64>,
    /// Of each exchange that leads to delay queues the shortest TTL, so that each place of a ladder is open before the next
    /// larger one leads there. An exchange can have the name of a queue.
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

    /// The stage of a change and, within it, the TTL of its delay queue; zero where it has to do with none.
    pub(super) fn place(&self, change: &Change) -> (Stage, i64) {
        (self.stage(change), self.ttl_of(change))
    }

    fn ttl_of(&self, change: &Change) -> i64 {
        match change {
            // After the exchange that it leads to.
            Change::CreateExchange(exchange) => {
                i64::from(exchange.alternate().is_some_and(|it| it != self.park_exchange))
            }
            // After the bindings of the shards that it leads to.
            Change::Bind(Binding { destination, to_queue: false, .. })
                if self.shards.contains(destination) =>
            {
                1
            }
            // Before them.
            Change::Unbind(Binding { to_queue: false, .. }) => -1,
            // Through which messages go on without a hop.
            Change::Bind(Binding { source, to_queue: false, .. }) => {
                self.delaying.get(source).copied().unwrap_or_default()
            }
            change => self.ttl_ms(change.queue()),
        }
    }

    /// Zero for other than delay queues.
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

/// For each exchange the shortest TTL among the queues that are bound to it.
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
