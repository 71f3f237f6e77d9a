//! Which levels the broker does not route to, as it says itself: it returns what is published through the exchange of
//! put-backs for a level that is not bound.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::topology::{
    Timeout, Topology,
    level_routes::LevelRoutes,
    route::{Route, RouteError},
};

/// After this long without another return a level is tried again: somebody may have run `overdue apply`.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);

/// Shared by all consumers of a session.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// The routes that are lost, and when the last message was returned.
    returned: Mutex<(LevelRoutes, Option<Instant>)>,
}

impl Levels {
    /// Where a message for `timeout` waits for `rest`, or for as much of it as one publish can.
    /// An error if the topology, or the broker, has nothing that delays it.
    pub(super) fn wait(
        &self,
        topology: &Topology,
        timeout: &Timeout,
        rest: Duration,
        now: Instant,
    ) -> Result<Route, RouteError> {
        let mut returned = self.returned.lock();
        let (routes, last) = &mut *returned;
        if last.is_some_and(|last| now.saturating_duration_since(last) >= FORGOTTEN_AFTER) {
            (*routes, *last) = (LevelRoutes::default(), None);
        }
        routes.wait(topology, timeout, rest).map(|route| topology.again(route))
    }

    /// The broker has returned a message that took `route`.
    pub(super) fn returned(&self, route: &Route, now: Instant) {
        let mut returned = self.returned.lock();
        let (routes, last) = &mut *returned;
        routes.lose(route);
        *last = Some(now);
    }

    /// Somebody else has found levels that are there again.
    pub(super) fn forget(&self) {
        *self.returned.lock() = (LevelRoutes::default(), None);
    }
}
