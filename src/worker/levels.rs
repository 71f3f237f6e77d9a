//! Levels that the broker does not route to. Workers publish copies through an exchange that returns a message for an unbound
//! level.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::topology::{
    Timeout, Topology,
    level_routes::LevelRoutes,
    route::{Route, RouteError},
};

/// After this time without another return a level is tried again: the administrator may have run `overdue apply`.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(5);

/// Returned routes of a session, shared by its consumers.
#[derive(Debug, Default)]
pub(super) struct Levels {
    /// The lost routes, and when the last message was returned.
    returned: Mutex<(LevelRoutes, Option<Instant>)>,
}

impl Levels {
    /// The route on which a message for `timeout` waits for `rest`, or for as much of it as one publish can. An error if the
    /// topology or the broker has no level for it.
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

    /// Records that the broker returned a message for `route`.
    pub(super) fn returned(&self, route: &Route, now: Instant) {
        let mut returned = self.returned.lock();
        let (routes, last) = &mut *returned;
        routes.lose(route);
        *last = Some(now);
    }

    /// Forgets all returns, because the management API lists the levels again.
    pub(super) fn forget(&self) {
        *self.returned.lock() = (LevelRoutes::default(), None);
    }
}
