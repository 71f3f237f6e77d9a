//! Which levels the broker routes to: a notice for one that is not there would be confirmed, and parked.

use std::time::{Duration, Instant};

use crate::{
    broker::{ConnectError, Link, routes::probed_level_routes},
    topology::level_routes::LevelRoutes,
    worker::context::Worker,
};

/// Without the management API a look is a connection, and lines in the broker's log for levels that are not there.
const PROBE_EVERY: Duration = Duration::from_mins(5);

/// What is known of the levels.
#[derive(Debug, Default)]
pub(super) struct Routes {
    known: LevelRoutes,
    /// When to look again.
    look_at: Option<Instant>,
}

impl Routes {
    pub(super) const fn known(&self) -> &LevelRoutes {
        &self.known
    }

    /// Something was other than known.
    pub(super) fn doubt(&mut self) {
        self.look_at = None;
    }

    /// Looks, where the last look was long ago.
    pub(super) async fn refresh(&mut self, worker: &Worker) -> Result<(), ConnectError> {
        if self.look_at.is_some_and(|at| Instant::now() < at) {
            return Ok(());
        }
        let topology = &worker.topology;
        if let Some(management) = &worker.management
            && let Ok(routes) = management.level_routes(topology).await
        {
            (self.known, self.look_at) =
                (routes, Some(Instant::now() + worker.timing.levels_every));
            return Ok(());
        }
        let link = Link::open(&worker.address, "overdue worker: levels").await?;
        // What the broker does not say stays as it was: what no level takes is parked.
        if let Some(routes) = probed_level_routes(&link, topology).await {
            self.known = routes;
        }
        link.close().await;
        self.look_at = Some(Instant::now() + PROBE_EVERY);
        Ok(())
    }
}
