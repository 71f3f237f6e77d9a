//! The levels that a broker routes to, and the timeouts that have a queue on it. The broker also confirms a message for an
//! unroutable level: the alternate exchange of the entry exchange parks it. A message for a timeout without a queue is parked
//! when it is due. AMQP does not report either.

use std::{collections::BTreeSet, time::Duration};

use super::{
    Timeout, Topology,
    level::{Level, best_level},
    route::{Delay, Route, RouteError},
    strategy::{DELAYED_EXCHANGE_TYPE, Strategy},
};
use crate::objects::{Objects, routing, shard};

/// The routes of a topology that reach no level on a broker, at the time of the query.
///
/// Unknown routes are assumed to exist: the broker's answer to the message decides.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LevelRoutes {
    /// Routing keys without a delay queue.
    missing: BTreeSet<String>,
    /// Queues of a ladder without a binding; a path has several queues.
    unbound: BTreeSet<String>,
    /// Exchanges of the strategy that do not exist: publishing to one closes the channel.
    absent: BTreeSet<String>,
    /// Levels that the topology lacks.
    others: BTreeSet<String>,
    /// Timeouts without a queue for due messages.
    queueless: BTreeSet<String>,
}

impl LevelRoutes {
    /// Computes the routes from the exchanges and bindings of a broker.
    ///
    /// If the entry exchange is missing, every route is assumed to exist: the error of publishing explains more.
    pub fn of_objects(topology: &Topology, objects: &Objects) -> Self {
        let sent = topology.publications().chain(sent_by_compat(topology));
        let missing = sent.filter(|(exchange, key)| is_missing(objects, topology, exchange, key));
        let queues = topology.ladder_queues().into_iter();
        let unbound = queues.filter(|base| !is_bound(topology, objects, base)).collect();
        let entries = topology.entries().into_iter().map(|entry| entry.exchange);
        let comes_and_goes = entries.filter(|exchange| *exchange != topology.entry_exchange());
        let absent = comes_and_goes.filter(|exchange| !objects.exchanges.contains_key(exchange));
        let timeouts = topology.timeouts.iter();
        let queueless = timeouts.filter(|timeout| !gets_what_is_due(topology, objects, timeout));
        Self {
            missing: missing.map(|(_, key)| key).collect(),
            unbound,
            absent: absent.collect(),
            others: other_levels(topology, objects),
            queueless: queueless.map(|timeout| timeout.name.clone()).collect(),
        }
    }

    /// Records the route of a message that the broker has returned.
    pub(crate) fn lose(&mut self, route: &Route) {
        self.missing.insert(route.routing_key.clone());
        self.unbound.extend(route.queues.first().cloned());
    }

    /// Whether a message on `route` reaches its level; otherwise the broker confirms and parks it.
    pub fn leads(&self, route: &Route) -> bool {
        self.leads_by(&route.routing_key)
            && !self.absent.contains(&route.exchange)
            && route.queues.iter().all(|queue| self.leads_to(queue))
    }

    /// Whether a queue of the ladder is bound.
    pub(crate) fn leads_to(&self, queue: &str) -> bool {
        !self.unbound.contains(queue)
    }

    /// Whether a routing key reaches a level.
    pub(crate) fn leads_by(&self, routing_key: &str) -> bool {
        !self.missing.contains(routing_key)
    }

    /// Whether a due message for the timeout reaches one of its queues; otherwise the broker parks it.
    pub fn has_queue(&self, timeout: &str) -> bool {
        !self.queueless.contains(timeout)
    }

    /// The routing keys, `<level>.<timeout>`, that reach no level.
    pub fn missing(&self) -> impl Iterator<Item = &str> {
        self.missing.iter().map(String::as_str)
    }

    /// The routing keys of delays that timeouts name and that reach no level: the broker parks these messages.
    pub fn missing_to_timeouts(&self, topology: &Topology) -> BTreeSet<String> {
        let named = topology.timeouts.iter().flat_map(|timeout| {
            timeout.delays().map(move |level| (timeout, Delay::Level(level.name().to_owned())))
        });
        let routes = named.filter_map(|(timeout, it)| topology.route(&timeout.name, &it).ok());
        routes.filter(|route| !self.leads(route)).map(|route| route.routing_key).collect()
    }

    /// The levels that the entry exchange routes to and the topology lacks.
    pub fn others(&self) -> impl Iterator<Item = &str> {
        self.others.iter().map(String::as_str)
    }

    /// Queues of a ladder without a binding.
    pub(crate) fn unbound(&self) -> impl Iterator<Item = &str> {
        self.unbound.iter().map(String::as_str)
    }

    /// Exchanges of the strategy that publishers use and that do not exist.
    pub(crate) fn absent(&self) -> impl Iterator<Item = &str> {
        self.absent.iter().map(String::as_str)
    }

    /// The route on this broker that delays a message for `timeout` by `rest`. A delay beyond the limit of one publish is cut to
    /// it.
    ///
    /// # Errors
    /// Nothing on the broker delays the message.
    pub fn wait(
        &self,
        topology: &Topology,
        timeout: &Timeout,
        rest: Duration,
    ) -> Result<Route, RouteError> {
        if topology.strategy != Strategy::Levels {
            return topology.wait(timeout, rest).and_then(|route| {
                if self.leads(&route) { Ok(route) } else { Err(RouteError::NoDelay) }
            });
        }
        let is_there = |level: &&Level| self.leads_by(&Topology::routing_key(level, timeout));
        let there: Vec<Level> = topology.levels.iter().filter(is_there).cloned().collect();
        let level = best_level(&there, topology.lead, rest).ok_or(RouteError::NoDelay)?;
        Ok(topology.through(level, &timeout.name))
    }

    /// The route of a first notice. A due notice goes straight to the business queue. So does a notice that is due within 10
    /// minutes, if every level is longer: the worker keeps it unacked until then.
    ///
    /// # Errors
    /// Nothing on the broker delays the message.
    pub fn until_due(
        &self,
        topology: &Topology,
        timeout: &Timeout,
        rest: Duration,
    ) -> Result<Route, RouteError> {
        if rest.is_zero() {
            return Ok(topology.due_route(timeout));
        }
        let route = self.wait(topology, timeout, rest)?;
        Ok(if route.is_too_long(rest) { topology.due_route(timeout) } else { route })
    }
}

/// Whether no delay queue takes the message: the parking lot or a foreign queue does. `false` for a missing exchange, which the
/// error of publishing explains better.
fn is_missing(objects: &Objects, topology: &Topology, exchange: &str, key: &str) -> bool {
    let Some(entry) = objects.exchanges.get(exchange) else { return false };
    let routed = routing::route(objects, exchange, key);
    let takes = |queue: &String| match entry.kind.as_str() {
        // The plugin's exchange keeps the message, and routes it when it is due.
        DELAYED_EXCHANGE_TYPE => *queue != topology.parked_queue(),
        _ => topology.is_delay_queue(queue),
    };
    routed.missing.is_empty() && !routed.queues.iter().any(takes)
}

/// Whether a queue of the timeout, in any generation and shard, gets its due messages; a foreign queue closes no order.
fn gets_what_is_due(topology: &Topology, objects: &Objects, timeout: &Timeout) -> bool {
    let routed = routing::route(objects, &topology.due_exchange(), &timeout.name);
    let base = topology.business_queue(timeout);
    let is_its = |queue: &String| {
        let mut words = queue.strip_prefix(&base).into_iter().flat_map(|rest| rest.split('.'));
        let is_number = |word: &str| word.parse::<u32>().is_ok() || shard::number(word).is_some();
        words.next() == Some("") && words.all(is_number)
    };
    !routed.missing.is_empty() || routed.queues.iter().any(is_its)
}

/// Messages that a worker publishes for an exchange that was taken over.
fn sent_by_compat(topology: &Topology) -> impl Iterator<Item = (String, String)> {
    let rule = topology.compat_timeout().filter(|_| topology.strategy == Strategy::Levels);
    let keys = rule.into_iter().flat_map(|rule| {
        topology.levels.iter().map(move |level| Topology::routing_key(level, &rule))
    });
    keys.map(|key| (topology.entry_exchange(), key))
}

fn other_levels(topology: &Topology, objects: &Objects) -> BTreeSet<String> {
    let entry = topology.entry_exchange();
    let bound = objects.bindings.iter();
    let bound = bound.filter(|it| it.source == entry && topology.is_delay_queue(&it.destination));
    let levels = bound.filter_map(|it| it.routing_key.split('.').next()?.parse::<Level>().ok());
    let others = levels.filter(|level| topology.level(level.name()).is_none());
    others.map(|level| level.to_string()).collect()
}

/// Whether an exchange of publishers is bound to a queue, in any generation; a mark does not count.
fn is_bound(topology: &Topology, objects: &Objects, base: &str) -> bool {
    let of = |name: &str| {
        let rest = name.strip_prefix(base);
        let rest = rest.map(|rest| rest.strip_prefix('.').unwrap_or(rest));
        rest.is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_digit()))
    };
    let bindings = objects.bindings.iter();
    let mut to_it = bindings.filter(|it| it.to_queue && it.mark_of().is_none());
    to_it.any(|it| !it.source.is_empty() && !topology.is_again(&it.source) && of(&it.destination))
}
