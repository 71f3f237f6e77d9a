//! The whole way of a notice, publish by publish: its publisher's, and those of the worker that sends it on.

use std::time::Duration;

use super::{
    Timeout, Topology,
    route::{Route, RouteError},
};
use crate::ladder::path::Hop;

/// Publishes that take the same way, one after the other.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stage {
    /// Where to, each time.
    pub route: Route,
    /// The queues that it waits in each time, with their holds; none where an exchange holds it.
    pub hops: Vec<Hop>,
    /// How often, at least once.
    pub times: u64,
}

/// The way of a notice.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Stages {
    /// The publisher's first.
    pub stages: Vec<Stage>,
    /// What is left for the worker to wait for with the message in hand.
    pub rest: Duration,
    /// How much later than asked for it comes out, where the publisher had nothing shorter.
    pub late: Duration,
}

impl Topology {
    /// The way of a notice for `timeout` that is published to `first` and due after `delay`, where a worker waits for at
    /// most `hold` with the message in hand.
    ///
    /// # Errors
    /// Nothing delays.
    pub fn stages(
        &self,
        timeout: &Timeout,
        first: Route,
        delay: Duration,
        hold: Duration,
    ) -> Result<Stages, RouteError> {
        let (mut late, mut rest) = (first.holds.saturating_sub(delay), delay);
        let mut stages = Vec::new();
        let mut next = Some((first, 1));
        while let Some((route, times)) = next {
            let times_32 = u32::try_from(times).ok();
            let waited = times_32.and_then(|times| route.holds.checked_mul(times)).unwrap_or(rest);
            late = late.max(waited.saturating_sub(rest));
            rest = rest.saturating_sub(waited);
            stages.push(Stage { hops: self.hops(&route), route, times });
            next = self.sent_on(timeout, rest, hold)?;
        }
        Ok(Stages { stages, rest, late })
    }

    /// How the worker sends on what is early by `rest`, and how often in a row.
    fn sent_on(
        &self,
        timeout: &Timeout,
        rest: Duration,
        hold: Duration,
    ) -> Result<Option<(Route, u64)>, RouteError> {
        if rest <= hold {
            return Ok(None);
        }
        let route = self.wait(timeout, rest)?;
        if route.is_too_long(rest) {
            return Ok(None);
        }
        let (one, rest, beyond) =
            (route.holds.as_nanos(), rest.as_nanos(), rest.saturating_sub(hold).as_nanos());
        if one == 0 {
            return Ok(None);
        }
        // As long as the same is the longest that fits, and there is more than the worker waits for in hand.
        let times = beyond.div_ceil(one).min(rest / one).max(1);
        Ok(Some((route, u64::try_from(times).unwrap_or(u64::MAX))))
    }

    /// The queues of a route with their holds.
    pub fn hops(&self, route: &Route) -> Vec<Hop> {
        let path = self
            .strategy
            .ladder()
            .and_then(|ladder| ladder.decode(&route.exchange, &route.routing_key).ok());
        path.map_or_else(
            || {
                let hop = |queue: &String| Hop { queue: queue.clone(), hold: route.holds };
                route.queues.iter().map(hop).collect()
            },
            |path| path.hops,
        )
    }
}
