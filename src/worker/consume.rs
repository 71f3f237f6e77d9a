//! A consumer for each queue of each timeout. What happens to one queue concerns no other.

mod batch;
mod delivery;
mod desk;
pub(super) mod inlet;
mod log;
mod outage;
mod queues;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::{Id, JoinError, JoinSet};

use super::{
    backoff::{Backoff, jitter},
    compat,
    context::{ConsumerContext, Worker},
    levels::Levels,
    limits,
    session::SessionEnd,
};
use crate::{
    broker::{Link, publish::outlet::Outlet},
    shutdown::Stop,
    telemetry,
    text::error_chain,
    topology::{Timeout, level_routes::LevelRoutes, taken_over_exchange::WORD},
};
use inlet::{Bodies, Inlet};

/// While a queue is being deleted, subscribing to it ends the whole connection (`INTERNAL_ERROR`).
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);
/// A look takes milliseconds, and where the management API is silent some seconds.
const ALIVE_WITHIN: Duration = Duration::from_mins(5);

type Ended = Result<(Id, Result<(), SessionEnd>), JoinError>;

/// The consumers of a session.
struct Consumers {
    worker: Arc<Worker>,
    link: Arc<Link>,
    outlet: Arc<Outlet>,
    levels: Arc<Levels>,
    /// What the broker routed to when it was asked last.
    routes: LevelRoutes,
    stop: Stop,
    tasks: JoinSet<Result<(), SessionEnd>>,
    running: BTreeMap<String, (Id, Instant)>,
    /// Queues that could not be consumed, and when it is tried again.
    troubled: BTreeMap<String, (Backoff, Instant)>,
    /// Timeouts without a queue.
    missing: BTreeSet<String>,
}

/// Consumes from every queue that is there, and from those that come, until a stop is asked for.
///
/// # Errors
/// The connection is gone.
pub(super) async fn consume(
    worker: Arc<Worker>,
    link: Arc<Link>,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let outlet = Arc::new(Outlet::new(worker.address.clone(), "overdue worker: publishing"));
    let mut consumers = Consumers {
        worker,
        link,
        outlet,
        levels: Arc::default(),
        routes: LevelRoutes::default(),
        stop,
        tasks: JoinSet::new(),
        running: BTreeMap::new(),
        troubled: BTreeMap::new(),
        missing: BTreeSet::new(),
    };
    consumers.look().await?;
    consumers.report_ready();
    consumers.watch().await?;
    consumers.finish().await
}

impl Consumers {
    async fn watch(&mut self) -> Result<(), SessionEnd> {
        let longest = queues::look_every(&self.worker);
        let alive = self.worker.health.task("look for queues", "", ALIVE_WITHIN);
        let mut regular = Instant::now() + jitter(longest);
        loop {
            let next_try = self.troubled.values().map(|(_, at)| *at).min();
            let next_look = next_try.map_or(regular, |next_try| next_try.min(regular));
            self.report_consumed();
            alive.moved();
            tokio::select! {
                () = self.stop.requested() => return Ok(()),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended)?,
                () = tokio::time::sleep_until(next_look.into()) => {
                    let started = self.look().await?;
                    regular = Instant::now() + jitter(longest);
                    if !started.is_empty() {
                        telemetry::queues_changed(&started);
                    }
                }
            }
        }
    }

    /// Says which levels the broker does not route to: what is published for these is parked.
    async fn look_at_levels(&mut self) {
        let Worker { management, topology, health, .. } = &*self.worker;
        let Some(management) = management else { return };
        let Ok(routes) = management.level_routes(topology).await else { return };
        telemetry::observed::levels_missing(routes.missing().count());
        let added = |from: &LevelRoutes, to: &LevelRoutes| -> Vec<String> {
            let before: BTreeSet<&str> = from.missing().collect();
            to.missing().filter(|key| !before.contains(key)).map(str::to_owned).collect()
        };
        let (gone, back) = (added(&self.routes, &routes), added(&routes, &self.routes));
        if !gone.is_empty() {
            telemetry::levels_gone(&gone);
        }
        if !back.is_empty() {
            telemetry::levels_back(&back);
        }
        health.levels(&routes, topology);
        self.routes = routes;
    }

    /// Starts consumers for queues that have none; their names.
    async fn look(&mut self) -> Result<Vec<String>, SessionEnd> {
        let worker = Arc::clone(&self.worker);
        self.look_at_levels().await;
        let consumed = self.running.keys().cloned().collect();
        let missing = self.missing.clone();
        let mut started = Vec::new();
        for (timeout, found) in queues::find(&worker, &self.link, &consumed, &missing).await {
            if !found.is_empty() {
                self.missing.remove(&timeout.name);
            } else if self.missing.insert(timeout.name.clone()) {
                let queue = worker.topology.business_queue(timeout);
                telemetry::queue_missing(&timeout.name, &queue);
            }
            // What is no longer there is not tried again.
            let base = worker.topology.business_queue(timeout);
            self.troubled.retain(|queue, _| !is_of(&base, queue) || found.contains(queue));
            for queue in found {
                if self.may_start(&queue) && self.start(timeout, &queue).await? {
                    started.push(queue);
                }
            }
        }
        Ok(started)
    }

    fn may_start(&self, queue: &str) -> bool {
        let waits = self.troubled.get(queue).is_some_and(|(_, at)| *at > Instant::now());
        !self.running.contains_key(queue) && !waits
    }

    /// Whether it could be started; a queue that cannot be consumed is left for a while.
    async fn start(&mut self, timeout: &Timeout, queue: &str) -> Result<bool, SessionEnd> {
        let prefetch = limits::prefetch(&self.worker.settings);
        let is_compat = timeout.name == WORD;
        let bodies = if is_compat { Bodies::Small } else { Bodies::Notices };
        let limit = self.worker.topology.delivery_limit;
        let names = (timeout.name.as_str(), queue);
        let inlet = match Inlet::open(&self.link, names, prefetch, bodies, limit).await {
            Ok(inlet) => inlet,
            Err(error) => return self.in_trouble(queue, error.into()).map(|()| false),
        };
        let context = ConsumerContext {
            worker: Arc::clone(&self.worker),
            timeout: timeout.clone(),
            queue: queue.to_owned(),
            outlet: Arc::clone(&self.outlet),
            levels: Arc::clone(&self.levels),
            prefetch,
        };
        let stop = self.stop.clone();
        let task = if is_compat {
            self.tasks.spawn(compat::delay(context, inlet, stop))
        } else {
            self.tasks.spawn(desk::consume(context, inlet, stop))
        };
        self.running.insert(queue.to_owned(), (task.id(), Instant::now()));
        Ok(true)
    }

    fn ended(&mut self, ended: Ended) -> Result<(), SessionEnd> {
        let (id, result) = match ended {
            Ok((id, result)) => (id, result),
            Err(panic) => (panic.id(), Err(SessionEnd::Panicked(panic.to_string()))),
        };
        let queue = self.running.iter().find(|(_, (task, _))| *task == id);
        let Some((queue, began)) = queue.map(|(queue, (_, began))| (queue.clone(), *began)) else {
            return Ok(());
        };
        self.running.remove(&queue);
        if began.elapsed() >= self.worker.timing.good_session {
            self.troubled.remove(&queue);
        }
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.in_trouble(&queue, error),
        }
    }

    /// # Errors
    /// The connection is gone, so it is not this queue's trouble.
    fn in_trouble(&mut self, queue: &str, error: SessionEnd) -> Result<(), SessionEnd> {
        if !self.link.is_connected() {
            return Err(error);
        }
        let (mut backoff, _) = self.troubled.remove(queue).unwrap_or_else(|| {
            telemetry::queue_lost(queue, &error_chain(&error));
            (Backoff::new(&self.worker.timing), Instant::now())
        });
        let next = Instant::now() + backoff.pause_after(SHORTEST_PAUSE);
        self.troubled.insert(queue.to_owned(), (backoff, next));
        Ok(())
    }

    /// Which timeouts have a consumer.
    fn report_consumed(&self) {
        let is_consumed = |timeout: &&Timeout| {
            let base = self.worker.topology.business_queue(timeout);
            self.running.keys().any(|queue| is_of(&base, queue))
        };
        let without = self.worker.rules.iter().filter(|timeout| !is_consumed(timeout));
        self.worker.health.unconsumed(without.map(|timeout| timeout.name.clone()).collect());
        telemetry::observed::consumed(self.running.len());
    }

    fn report_ready(&self) {
        self.report_consumed();
        self.worker.health.session_opened();
        let names: Vec<String> = self.running.keys().cloned().collect();
        let (broker, database) = (self.worker.address.to_string(), self.worker.store.address());
        telemetry::worker_ready(&names, &broker, database);
    }

    /// Waits until every consumer has given back what it has not finished.
    async fn finish(&mut self) -> Result<(), SessionEnd> {
        while let Some(ended) = self.tasks.join_next_with_id().await {
            self.ended(ended)?;
        }
        Ok(())
    }
}

fn is_of(base: &str, queue: &str) -> bool {
    crate::plan::generation::number_of(base, queue).is_some()
}
