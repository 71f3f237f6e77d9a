//! Which levels the broker routes to: looked up with the queues, read by every consumer.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, AtomicU32, Ordering},
    },
    time::{Duration, Instant},
};

use tokio::sync::{Notify, watch};

use super::counters::{Counters, count};
use crate::{
    broker::{Link, Management, routes::probed_level_routes},
    telemetry::{self, labels::ParkReason},
    topology::{Topology, level_routes::LevelRoutes, route::Route},
};

/// Without the management API a level that is not there costs lines in the broker's log: then every fourth look asks.
const PROBE_EVERY: u32 = 4;
/// Between two looks that somebody waits for. One serves all who wait: so it costs the broker the same at any rate.
const PROMPT_EVERY: Duration = Duration::from_millis(200);
/// A look that takes long is a broker that is busy: at most such a part of the time is spent with looks.
const PAUSE_PER_LOOK: u32 = 10;

/// Whom to ask about which levels.
pub(super) struct Question<'a> {
    pub(super) topology: &'a Topology,
    pub(super) management: Option<&'a Management>,
    pub(super) link: &'a Link,
}

/// A look that has ended.
#[derive(Clone)]
pub(super) struct Looked {
    /// What was there before this instant is in it.
    pub(super) began: Instant,
    /// By the bindings of the broker; none where it did not say.
    pub(super) routes: Option<Arc<LevelRoutes>>,
}

/// What is known of the levels, by all consumers of a session.
pub(super) struct LevelWatch {
    known: Mutex<Known>,
    probes: AtomicU32,
    /// Whether the broker can say which levels it routes to.
    says: bool,
    /// The broker does not say to this user which queues there are.
    is_silent: AtomicBool,
    is_wanted: Notify,
    looked: watch::Sender<Option<Looked>>,
}

#[derive(Default)]
struct Known {
    routes: Arc<LevelRoutes>,
    /// Copies confirmed since the last look. A confirm does not say which queue took them.
    copies: BTreeMap<Route, usize>,
    /// Whether somebody waits for a look that begins from now on.
    wanted: bool,
    /// Before it no prompt look begins.
    rests_until: Option<Instant>,
}

/// What the broker answered.
enum Answer {
    /// Its exchanges and bindings.
    Routes(LevelRoutes),
    /// Which queues are there.
    Queues(LevelRoutes),
}

impl LevelWatch {
    /// `says`: whether there is a management API to ask.
    pub(super) fn new(says: bool) -> Self {
        Self {
            known: Mutex::default(),
            probes: AtomicU32::default(),
            says,
            is_silent: AtomicBool::default(),
            is_wanted: Notify::new(),
            looked: watch::Sender::new(None),
        }
    }

    /// Whether it is worth waiting for a look.
    pub(super) const fn says(&self) -> bool {
        self.says
    }

    /// Each look that ends.
    pub(super) fn subscribe(&self) -> watch::Receiver<Option<Looked>> {
        self.looked.subscribe()
    }

    /// Somebody waits for a look that has not begun yet.
    pub(super) fn want(&self) {
        self.known().wanted = true;
        self.is_wanted.notify_one();
    }

    /// Waits until somebody wants a look.
    pub(super) async fn wanted_at_once(&self) {
        while !self.known().wanted {
            self.is_wanted.notified().await;
        }
    }

    /// Waits until somebody wants a look and the broker has had a rest from the last one.
    pub(super) async fn wanted(&self) {
        self.wanted_at_once().await;
        let until = self.known().rests_until;
        if let Some(until) = until {
            tokio::time::sleep_until(until.into()).await;
        }
    }

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
        let began = Instant::now();
        // Confirmed before the broker is asked: of a level that is there now, they are in it.
        let before = {
            let mut known = self.known();
            known.wanted = false;
            std::mem::take(&mut known.copies)
        };
        let answer = self.ask(question).await;
        self.known().rests_until = Some(rests_until(began, Instant::now()));
        let routes = match answer {
            Some(Answer::Routes(routes)) => {
                self.learn(&routes, &before, counters);
                Some(Arc::new(routes))
            }
            Some(Answer::Queues(routes)) => {
                self.learn(&routes, &before, counters);
                None
            }
            None => {
                self.put_back(before);
                None
            }
        };
        self.looked.send_replace(Some(Looked { began, routes }));
    }

    fn learn(&self, routes: &LevelRoutes, before: &BTreeMap<Route, usize>, counters: &Counters) {
        let (old, parked) = {
            let mut known = self.known();
            let gone = |route: &Route| !routes.leads(route);
            let during = known.copies.iter();
            let mut parked = 0_usize;
            for (route, copies) in before.iter().chain(during).filter(|(route, _)| gone(route)) {
                telemetry::parked_by_broker(timeout_of(route), ParkReason::LevelGone, *copies);
                parked += copies;
            }
            known.copies.retain(|route, _| routes.leads(route));
            (std::mem::replace(&mut known.routes, Arc::new(routes.clone())), parked)
        };
        count(&counters.parked, parked);
        telemetry::observed::levels_missing(routes.missing().count());
        report(&old, routes, parked);
    }

    fn put_back(&self, before: BTreeMap<Route, usize>) {
        let mut known = self.known();
        for (route, copies) in before {
            *known.copies.entry(route).or_default() += copies;
        }
    }

    async fn ask(&self, question: &Question<'_>) -> Option<Answer> {
        let Question { topology, management, link } = *question;
        if let Some(management) = management
            && let Ok(routes) = management.level_routes(topology).await
        {
            return Some(Answer::Routes(routes));
        }
        let probes = self.probes.fetch_add(1, Ordering::Relaxed);
        if self.routes().missing().next().is_some() && !probes.is_multiple_of(PROBE_EVERY) {
            return None;
        }
        if self.is_silent.load(Ordering::Relaxed) {
            return None;
        }
        let queues = probed_level_routes(link, topology).await;
        if queues.is_none() {
            // To ask again would cost a channel and a line in the broker's log each time.
            self.is_silent.store(true, Ordering::Relaxed);
        }
        queues.map(Answer::Queues)
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn rests_until(began: Instant, ended: Instant) -> Instant {
    ended + PROMPT_EVERY.max(ended.duration_since(began) * PAUSE_PER_LOOK)
}

/// The last word of the routing key.
fn timeout_of(route: &Route) -> &str {
    route.routing_key.rsplit('.').next().unwrap_or_default()
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
