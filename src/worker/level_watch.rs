//! Which levels the broker routes to: looked up with the queues, read by every consumer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU32, Ordering},
    },
};

use super::counters::{Counters, count};
use crate::{
    broker::{Link, Management, routes::probed_level_routes},
    telemetry,
    topology::{Topology, level_routes::LevelRoutes, route::Route},
};

/// Without the management API a level that is not there costs lines in the broker's log: then every fourth look asks.
const PROBE_EVERY: u32 = 4;

/// Whom to ask about which levels.
pub(super) struct Question<'a> {
    pub(super) topology: &'a Topology,
    pub(super) management: Option<&'a Management>,
    pub(super) link: &'a Link,
}

/// What is known of the levels, by all consumers of a session.
#[derive(Default)]
pub(super) struct LevelWatch {
    known: Mutex<Known>,
    probes: AtomicU32,
}

#[derive(Default)]
struct Known {
    routes: Arc<LevelRoutes>,
    /// Copies confirmed since the last look. A confirm does not say which queue took them.
    copies: BTreeMap<Route, usize>,
}

impl LevelWatch {
    pub(super) fn routes(&self) -> Arc<LevelRoutes> {
        Arc::clone(&self.known().routes)
    }

    /// A copy was confirmed. Whether it can have reached a level, as far as is known now.
    pub(super) fn confirmed(&self, route: &Route) -> bool {
        let mut known = self.known();
        let leads = known.routes.leads(route);
        if leads {
            *known.copies.entry(route.clone()).or_default() += 1;
        }
        leads
    }

    /// Asks the broker. What cannot be found out stays as it was.
    pub(super) async fn look(&self, question: &Question<'_>, counters: &Counters) {
        // Confirmed before the broker is asked: of a level that is there now, they are in it.
        let before = std::mem::take(&mut self.known().copies);
        let Some(routes) = self.ask(question).await else {
            self.put_back(before);
            return;
        };
        let (old, parked) = {
            let mut known = self.known();
            let gone = |route: &Route| !routes.leads(route);
            let during = known.copies.iter();
            let parked: usize =
                before.iter().chain(during).filter(|(route, _)| gone(route)).map(|(_, n)| n).sum();
            known.copies.retain(|route, _| routes.leads(route));
            (std::mem::replace(&mut known.routes, Arc::new(routes.clone())), parked)
        };
        count(&counters.parked, parked);
        report(&old, &routes, parked);
    }

    fn put_back(&self, before: BTreeMap<Route, usize>) {
        let mut known = self.known();
        for (route, copies) in before {
            *known.copies.entry(route).or_default() += copies;
        }
    }

    async fn ask(&self, question: &Question<'_>) -> Option<LevelRoutes> {
        let Question { topology, management, link } = *question;
        if let Some(management) = management
            && let Ok(routes) = management.level_routes(topology).await
        {
            return Some(routes);
        }
        let probes = self.probes.fetch_add(1, Ordering::Relaxed);
        if self.routes().missing().next().is_some() && !probes.is_multiple_of(PROBE_EVERY) {
            return None;
        }
        Some(probed_level_routes(link, topology).await).filter(|_| link.is_connected())
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn report(old: &LevelRoutes, new: &LevelRoutes, parked: usize) {
    let added = |from: &LevelRoutes, to: &LevelRoutes| -> Vec<String> {
        let before: BTreeSet<&str> = from.missing().collect();
        to.missing().filter(|key| !before.contains(key)).map(str::to_owned).collect()
    };
    let (gone, back) = (added(old, new), added(new, old));
    if !gone.is_empty() {
        telemetry::levels_gone(&gone, parked);
    }
    if !back.is_empty() {
        telemetry::levels_back(&back);
    }
}
