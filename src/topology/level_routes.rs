//! Which levels a broker routes to. A message for one that it does not route to is confirmed all the same, and parked by
//! the alternate exchange of the entry exchange; AMQP does not say so.

use std::collections::BTreeSet;

use super::{
    Timeout, Topology,
    level::{Level, best_level},
    route::Route,
};
use crate::objects::{Objects, routing};

/// The routes of a topology that lead to no level on a broker, at the moment it was asked.
///
/// What is not known is taken to lead somewhere: then the broker's answer to the message decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelRoutes {
    missing: BTreeSet<String>,
}

/// Where messages of one timeout can wait.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReachableLevels {
    /// The levels that are there.
    pub all: Vec<Level>,
    /// As many as the topology has for retries: in the place of one that is not there the best one that is. Empty where
    /// none is there.
    pub retry: Vec<Level>,
}

impl LevelRoutes {
    /// From the exchanges and bindings of a broker.
    ///
    /// Without the entry exchange every route is taken to be there: publishing says best what is wrong then.
    #[must_use]
    pub fn of_objects(topology: &Topology, objects: &Objects) -> Self {
        let missing = topology.routing_keys().filter(|key| is_missing(objects, topology, key));
        Self { missing: missing.collect() }
    }

    /// Without the routes through `levels`.
    pub(crate) fn without(topology: &Topology, levels: &[&Level]) -> Self {
        let keys = |level: &&Level| {
            let level = (*level).clone();
            topology.timeouts.iter().map(move |timeout| Topology::routing_key(&level, timeout))
        };
        Self { missing: levels.iter().flat_map(keys).collect() }
    }

    /// Whether a message for `route` reaches its level; otherwise it would be confirmed, and parked.
    #[must_use]
    pub fn leads(&self, route: &Route) -> bool {
        self.leads_by(&route.routing_key)
    }

    /// The same by the routing key.
    pub(crate) fn leads_by(&self, routing_key: &str) -> bool {
        !self.missing.contains(routing_key)
    }

    /// The routing keys, `<level>.<timeout>`, that lead to no level.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(String::as_str)
    }

    /// The levels for messages of `timeout`.
    #[doc(hidden)]
    #[must_use]
    pub fn reachable(&self, topology: &Topology, timeout: &Timeout) -> ReachableLevels {
        let is_there = |level: &&Level| self.leads_by(&Topology::routing_key(level, timeout));
        let all: Vec<Level> = topology.levels.iter().filter(is_there).cloned().collect();
        let instead = |level: &Level| {
            if is_there(&level) {
                return Some(level.clone());
            }
            best_level(&all, level.ttl().as_duration()).cloned()
        };
        let retry = topology.retry.iter().filter_map(instead).collect();
        ReachableLevels { all, retry }
    }
}

/// Whether no queue that delays would take it: the parking lot does, or somebody who listens. An exchange that is missing
/// is what publishing itself says best.
fn is_missing(objects: &Objects, topology: &Topology, key: &str) -> bool {
    let routed = routing::route(objects, &topology.entry_exchange(), key);
    routed.missing.is_empty()
        && objects.exchanges.contains_key(&topology.entry_exchange())
        && !routed.queues.iter().any(|queue| topology.is_delay_queue(queue))
}
