//! Canaries through an exchange that is taken over from the delayed message plugin.

use std::time::Duration;

use super::{Canaries, Canary, Tried};
use crate::{
    objects::routing::route,
    plan::{generation::number_of, snapshot::Snapshot},
    topology::{
        Topology,
        level::{Level, Ttl},
        route::Route,
        taken_over_exchange::XDelay,
    },
};

/// Where no level is as long, it goes through a worker.
const SHORTEST_MS: u64 = 1_000;

impl Canaries {
    /// With those that programs for the plugin would send: one with the `x-delay` of a level, and one with another,
    /// which a worker delays. None is sent that a consumer of others would get, or that nobody would send on.
    #[must_use]
    pub fn with_taken_over(
        mut self,
        topology: &Topology,
        observed: &Snapshot,
        word: &str,
        within: Duration,
    ) -> Self {
        let Some(compat) = &topology.compat else { return self };
        let listeners = listeners(topology, observed, word);
        if !listeners.is_empty() {
            let who = listeners.join(", ");
            self.left_out.push(format!("exchange {}: {who} would get it", compat.exchange));
            return self;
        }
        let shortest = topology.compat_levels().min_by_key(|level| level.ttl());
        self.list.extend(
            shortest
                .filter(|it| it.ttl().as_duration() <= within)
                .map(|level| canary(topology, compat, word, level.ttl())),
        );
        let other = other_delay(topology).filter(|ttl| ttl.as_duration() <= within);
        if !is_consumed(topology, observed) {
            self.left_out.push(format!(
                "exchange {} with an x-delay that is not a level: nobody consumes from {}",
                compat.exchange,
                topology.compat_queue()
            ));
        } else if let Some(ttl) = other {
            self.list.push(canary(topology, compat, word, ttl));
        }
        self
    }
}

/// Queues of others that get what comes out there.
fn listeners(topology: &Topology, observed: &Snapshot, word: &str) -> Vec<String> {
    let routed = route(&observed.objects, &topology.compat_due_exchange(), word);
    let parked = topology.parked_queue();
    let others = routed.queues.into_iter().filter(|queue| number_of(&parked, queue).is_none());
    others.map(|queue| format!("queue {queue}")).collect()
}

fn is_consumed(topology: &Topology, observed: &Snapshot) -> bool {
    let base = topology.compat_queue();
    observed.consumed.iter().any(|queue| number_of(&base, queue).is_some())
}

fn other_delay(topology: &Topology) -> Option<Ttl> {
    let is_level = |ms: &u64| topology.levels.iter().any(|level| level.ttl().as_millis() == *ms);
    // One more than there are levels cannot all be levels.
    let more = u64::try_from(topology.levels.len()).unwrap_or(u64::MAX);
    (SHORTEST_MS..=SHORTEST_MS.saturating_add(more))
        .find(|ms| !is_level(ms))
        .and_then(Ttl::from_millis)
}

fn canary(topology: &Topology, compat: &XDelay, word: &str, ttl: Ttl) -> Canary {
    let exchange = Tried::Exchange(compat.exchange.clone());
    let delay = Level::of(ttl);
    Canary {
        id: format!("{word}-x-delay-{delay}"),
        route: Route {
            exchange: compat.exchange.clone(),
            routing_key: word.to_owned(),
            x_delay: u32::try_from(ttl.as_millis()).ok(),
            holds: ttl.as_duration(),
            early: Duration::ZERO,
            queues: Vec::new(),
        },
        delay,
        through: exchange.clone(),
        subject: exchange,
        comes_out_at: topology.compat_due_exchange(),
        binding: word.to_owned(),
    }
}
