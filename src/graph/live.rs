//! The queues of the topology on a broker: the current and the retired generations, with their counts.

use std::collections::BTreeMap;

use super::Count;
use crate::{
    plan::{
        counts::StatisticsInterval,
        generation::{number_of, resolve},
        own_queues::{Kind, kind, message_ttl},
        snapshot::Snapshot,
    },
    topology::Topology,
};

/// A reading of a broker, as far as pictures show it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Live {
    /// Name and count of the current queue, by the name in the topology.
    current: BTreeMap<String, (String, Count)>,
    /// Retired delay queues, shortest level first.
    pub(super) retired_delays: Vec<(String, Count)>,
    /// Retired business queues.
    pub(super) retired_business: Vec<(String, Count)>,
    /// Retired parking lots.
    pub(super) retired_parked: Vec<(String, Count)>,
    /// Messages in the exchange of the delayed message plugin, on the node that answered.
    pub(super) delayed: Count,
    /// Maximum age of the counts, in seconds.
    pub(super) counted_within_s: u64,
}

impl Live {
    /// The part of `snapshot` that belongs to `topology`.
    pub fn of(topology: &Topology, snapshot: &Snapshot) -> Self {
        let resolved = resolve(topology, &snapshot.objects).objects;
        let count = |queue: &str| match snapshot.messages_in(queue) {
            _ if !snapshot.objects.queues.contains_key(queue) => Count::Absent,
            None => Count::Unknown,
            Some(messages) => Count::Messages(messages),
        };
        let mut live = Self {
            delayed: delayed(topology, snapshot),
            counted_within_s: StatisticsInterval::default().oldest_count().as_secs(),
            ..Self::default()
        };
        for base in topology.objects().queues.into_keys() {
            let in_use = resolved.queues.keys().find(|name| number_of(&base, name).is_some());
            let name = in_use.unwrap_or(&base).clone();
            let messages = count(&name);
            live.current.insert(base, (name, messages));
        }
        let observed = snapshot.objects.queues.values();
        let mut delays = Vec::new();
        for queue in observed.filter(|queue| !resolved.queues.contains_key(&queue.name)) {
            let found = (queue.name.clone(), count(&queue.name));
            match kind(topology, &snapshot.objects, queue) {
                Some(Kind::Delay(_)) => delays.push((message_ttl(queue), found)),
                Some(Kind::Business) => live.retired_business.push(found),
                Some(Kind::Parked) => live.retired_parked.push(found),
                None => {}
            }
        }
        delays.sort_by_key(|(ttl, _)| *ttl);
        live.retired_delays = delays.into_iter().map(|(_, found)| found).collect();
        live
    }

    /// Sets the interval of the broker's statistics, if it is not the default of five seconds.
    pub fn counted_every(self, interval: StatisticsInterval) -> Self {
        Self { counted_within_s: interval.oldest_count().as_secs(), ..self }
    }

    /// Name and count of the current queue that the topology calls `base`.
    pub(super) fn current(&self, base: &str) -> (String, Count) {
        self.current.get(base).cloned().unwrap_or_else(|| (base.to_owned(), Count::Absent))
    }

    /// The sum of the known counts of these queues.
    pub(super) fn sum(&self, queues: &[String]) -> Count {
        let counts = queues.iter().map(|queue| self.current(queue).1);
        counts.reduce(Count::and).unwrap_or(Count::Absent)
    }

    /// Messages in all queues of the topology.
    pub(super) fn total(&self) -> u64 {
        let current = self.current.values();
        let retired = [&self.retired_delays, &self.retired_business, &self.retired_parked];
        let counts = current.chain(retired.into_iter().flatten()).map(|(_, count)| *count);
        counts
            .chain([self.delayed])
            .map(|count| match count {
                Count::Messages(messages) => messages,
                Count::Absent | Count::Unknown => 0,
            })
            .fold(0, u64::saturating_add)
    }
}

fn delayed(topology: &Topology, snapshot: &Snapshot) -> Count {
    let exchange = topology.delayed_exchange();
    match snapshot.delayed.get(&exchange) {
        _ if !snapshot.objects.exchanges.contains_key(&exchange) => Count::Absent,
        None => Count::Unknown,
        Some(messages) => Count::Messages(*messages),
    }
}
