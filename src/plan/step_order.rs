//! The order in which a topology is built and taken down.

use std::collections::{BTreeMap, BTreeSet};

use super::{
    generation::{Resolved, number_of},
    own_queues::{Hold, Kind, is_in_a_ladder, kind},
    snapshot::Snapshot,
    step::{Change, Reason, Step},
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
    /// Queues of a ladder that has lost their places, largest place first: unbound, then deleted, before the next smaller
    /// place is touched, which they lead to.
    Ladder,
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
    /// Queues of a ladder that nothing takes the place of, with the shortest TTL of their place.
    retired: BTreeMap<String, i64>,
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
        let retired = retired_places(topology, observed, &ttl_ms);
        Self {
            park_exchange: topology.park_exchange(),
            mark_exchange: topology.mark_exchange(),
            entry_exchange: topology.entry_exchange(),
            taken_over: topology.compat.as_ref().map(|it| it.exchange.clone()),
            parked_queue: parked_queue.unwrap_or(parked),
            shards: topology.timeouts.iter().map(|it| topology.shards_exchange(it)).collect(),
            ttl_ms,
            delaying,
            retired,
        }
    }

    /// The stage of a change and, within it, the TTL of its delay queue; zero where it has to do with none.
    pub(super) fn place(&self, change: &Change) -> (Stage, i64, Stage) {
        let stage = self.stage(change);
        let retired = self.retired.get(change.queue());
        match retired.filter(|_| matches!(stage, Stage::Unbind | Stage::Delete)) {
            Some(ttl) => (Stage::Ladder, -ttl, stage),
            None => (stage, self.ttl_of(change), stage),
        }
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

/// Queues of a ladder that no queue of the topology takes the place of. The largest TTL of a place is shorter than the
/// shortest of the next one.
fn retired_places(
    topology: &Topology,
    observed: &Snapshot,
    ttl_ms: &BTreeMap<String, i64>,
) -> BTreeMap<String, i64> {
    let objects = &observed.objects;
    let bases = topology.objects().queues;
    let retired = |queue: &&Queue| {
        let kind = kind(topology, objects, queue);
        matches!(kind, Some(Kind::Delay(Hold::Digit(_))))
            && !bases.keys().any(|base| number_of(base, &queue.name).is_some())
    };
    let queues: Vec<&Queue> = objects.queues.values().filter(retired).collect();
    // The queues of a place lead to the same exchange.
    let place = |queue: &&Queue| {
        let next = queue.dead_letter_exchange();
        let same = queues.iter().filter(|it| it.dead_letter_exchange() == next);
        let shortest = same.filter_map(|it| ttl_ms.get(&it.name)).min();
        (queue.name.clone(), shortest.copied().unwrap_or_default())
    };
    queues.iter().map(place).collect()
}

/// Deletions of one plan that were not carried out.
///
/// Counts are late, so a message may be in a queue that the plan takes for empty, with the rest of its ladder before it.
/// A plan takes a ladder down from its largest place, so what such a message still needs can wait.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KeptQueues {
    in_a_ladder: bool,
}

impl KeptQueues {
    /// The deletion of `queue` was not carried out.
    pub fn keep(&mut self, topology: &Topology, queue: &str) {
        self.in_a_ladder |= is_in_a_ladder(topology, queue);
    }

    /// Whether `step` would take away the way of what may be in a queue that was kept.
    pub fn hold_up(&self, topology: &Topology, step: &Step) -> bool {
        self.in_a_ladder
            && match &step.change {
                Change::Unbind(_) => matches!(step.reason, Reason::LadderRemoved { .. }),
                Change::DeleteQueue { queue, .. } => is_in_a_ladder(topology, queue),
                _ => false,
            }
    }
}
