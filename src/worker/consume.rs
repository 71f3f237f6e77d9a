//! A consumer for each queue of each timeout. Each has its own connection, so that no queue affects another one: RabbitMQ
//! ends the connection if a quorum queue does not answer a subscription for a minute, or is being deleted.

mod batch;
mod delivery;
pub(super) mod delivery_channels;
mod log;
mod outage;
mod queue_consumer;
mod queues;
mod waiting;

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::{
    sync::mpsc,
    task::{Id, JoinError, JoinSet},
    time::timeout,
};

use super::{
    backoff::{Backoff, jitter},
    compat,
    context::{ConsumerContext, Worker},
    health::ALIVE_WITHIN,
    levels::Levels,
    limits,
    session::SessionEnd,
};
use crate::{
    messaging::{Link, publish::publisher_pool::PublisherPool},
    plan::generation::{is_of, number_of},
    shutdown::Stop,
    telemetry,
    text::error_chain,
    topology::{Timeout, level_routes::LevelRoutes, taken_over_exchange::WORD},
};
use delivery_channels::{Bodies, DeliveryChannels};
use queues::Known;

/// Shortest pause before a queue is consumed again after a failure: each attempt writes lines to the broker's log.
const SHORTEST_PAUSE: Duration = Duration::from_secs(1);

/// If the session's connection does not answer within this time after a consumer lost its own, the broker is gone.
const ANSWERS_WITHIN: Duration = Duration::from_secs(2);

type Ended = Result<(Id, Result<(), SessionEnd>), JoinError>;

struct Consumer {
    task: Id,
    began: Instant,
    /// Whether the queue has answered.
    consumes: bool,
}

/// The consumers of a session.
struct Consumers {
    worker: Arc<Worker>,
    link: Arc<Link>,
    publishers: Arc<PublisherPool>,
    levels: Arc<Levels>,
    /// Levels that the broker routed to when it was last asked.
    routes: LevelRoutes,
    /// At most one query of the levels: consumers do not wait for the management API.
    asked_for_levels: JoinSet<Option<LevelRoutes>>,
    stop: Stop,
    tasks: JoinSet<Result<(), SessionEnd>>,
    running: BTreeMap<String, Consumer>,
    /// Names of queues whose consumer has just started.
    opened: (mpsc::UnboundedSender<String>, mpsc::UnboundedReceiver<String>),
    is_reported: bool,
    /// Queues that could not be consumed, and the time of the next attempt.
    troubled: BTreeMap<String, (Backoff, Instant)>,
    /// Business queues that do not exist.
    missing: BTreeSet<String>,
    /// Whether the management API listed the queues when it was last asked.
    listed: bool,
}

/// Consumes from every existing queue, and from queues that are declared later, until a stop is requested.
pub(super) async fn consume(
    worker: Arc<Worker>,
    link: Arc<Link>,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let publishers =
        Arc::new(PublisherPool::new(worker.address.clone(), "overdue worker: publishing"));
    let stop = stop.child();
    let mut consumers = Consumers {
        worker,
        link,
        publishers,
        levels: Arc::default(),
        routes: LevelRoutes::default(),
        asked_for_levels: JoinSet::new(),
        stop,
        tasks: JoinSet::new(),
        running: BTreeMap::new(),
        opened: mpsc::unbounded_channel(),
        is_reported: false,
        troubled: BTreeMap::new(),
        missing: BTreeSet::new(),
        listed: false,
    };
    consumers.look().await;
    let watched = consumers.watch().await;
    // The consumers finish their batches and copies also if the session ends for another reason.
    consumers.stop.request();
    consumers.finish().await;
    watched
}

impl Consumers {
    async fn watch(&mut self) -> Result<(), SessionEnd> {
        let alive = self.worker.health.task("look for queues", "", ALIVE_WITHIN);
        let mut regular = self.next_look();
        loop {
            let next_try = next_try(&self.troubled, |queue| self.running.contains_key(queue));
            let next_look = next_try.map_or(regular, |next_try| next_try.min(regular));
            self.report_consumed();
            alive.moved();
            tokio::select! {
                () = self.stop.requested() => return Ok(()),
                Some(ended) = self.tasks.join_next_with_id() => self.ended(ended).await?,
                Some(queue) = self.opened.1.recv() => {
                    if self.is_reported {
                        telemetry::queues_changed(std::slice::from_ref(&queue));
                    }
                    if let Some(running) = self.running.get_mut(&queue) {
                        running.consumes = true;
                    }
                }
                Some(asked) = self.asked_for_levels.join_next() => {
                    if let Ok(Some(routes)) = asked {
                        self.levels_are(routes);
                    }
                }
                () = tokio::time::sleep_until(next_look.into()) => {
                    if !self.link.is_connected() {
                        return Err(SessionEnd::Lost);
                    }
                    self.report_ready();
                    self.look().await;
                    regular = self.next_look();
                }
            }
            if self.running.values().all(|running| running.consumes) {
                self.report_ready();
            }
        }
    }

    fn next_look(&self) -> Instant {
        Instant::now() + jitter(queues::look_every(&self.worker))
    }

    fn ask_for_levels(&mut self) {
        if !self.asked_for_levels.is_empty() {
            return;
        }
        let worker = Arc::clone(&self.worker);
        self.asked_for_levels.spawn(async move {
            worker.management.as_ref()?.level_routes(&worker.topology).await.ok()
        });
    }

    /// Logs levels that the broker does not route to: messages for them are parked.
    fn levels_are(&mut self, routes: LevelRoutes) {
        let Worker { topology, health, .. } = &*self.worker;
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
            self.levels.forget();
            telemetry::levels_back(&back);
        }
        health.levels(&routes, topology);
        self.routes = routes;
    }

    /// Starts consumers for queues that have none.
    async fn look(&mut self) {
        let worker = Arc::clone(&self.worker);
        self.ask_for_levels();
        let known = Known {
            consumed: self.running.keys().cloned().collect(),
            troubled: self.troubled.keys().cloned().collect(),
        };
        let (queues, listed) = queues::find(&worker, &self.link, &known).await;
        self.listed = listed;
        for (timeout, found) in queues {
            for queue in worker.topology.business_queues(timeout) {
                if found.iter().any(|it| number_of(&queue, it).is_some()) {
                    self.missing.remove(&queue);
                } else if self.missing.insert(queue.clone()) {
                    telemetry::queue_missing(&timeout.name, &queue);
                }
            }
            // A queue that no longer exists is not tried again.
            let base = worker.topology.business_queue(timeout);
            self.troubled.retain(|queue, _| !is_of(&base, queue) || found.contains(queue));
            for queue in found {
                if self.may_start(&queue) {
                    self.start(timeout, &queue);
                }
            }
        }
    }

    fn may_start(&self, queue: &str) -> bool {
        let waits = self.troubled.get(queue).is_some_and(|(_, at)| *at > Instant::now());
        !self.running.contains_key(queue) && !waits
    }

    fn start(&mut self, timeout: &Timeout, queue: &str) {
        let context = ConsumerContext {
            worker: Arc::clone(&self.worker),
            timeout: timeout.clone(),
            queue: queue.to_owned(),
            publishers: Arc::clone(&self.publishers),
            levels: Arc::clone(&self.levels),
            prefetch: limits::prefetch(&self.worker.settings, timeout),
        };
        let task = self.tasks.spawn(serve(context, self.stop.clone(), self.opened.0.clone()));
        let running = Consumer { task: task.id(), began: Instant::now(), consumes: false };
        self.running.insert(queue.to_owned(), running);
    }

    async fn ended(&mut self, ended: Ended) -> Result<(), SessionEnd> {
        let (id, result) = match ended {
            Ok((id, result)) => (id, result),
            Err(panic) => (panic.id(), Err(SessionEnd::Panicked(panic.to_string()))),
        };
        let Some(queue) = self.running.iter().find(|(_, running)| running.task == id) else {
            return Ok(());
        };
        let queue = queue.0.clone();
        let running = self.running.remove(&queue);
        if running
            .is_some_and(|it| it.consumes && it.began.elapsed() >= self.worker.timing.good_session)
        {
            self.troubled.remove(&queue);
        }
        self.report_consumed();
        self.worker.health.silent(&queue, "", None);
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.in_trouble(&queue, error).await,
        }
    }

    /// Sets the time of the next attempt to consume the queue. An error if the broker is gone: the queue is not the cause.
    async fn in_trouble(&mut self, queue: &str, error: SessionEnd) -> Result<(), SessionEnd> {
        let link = &self.link;
        let asked = link.answered(async { link.channel().await?.close(200, "".into()).await });
        if !matches!(timeout(ANSWERS_WITHIN, asked).await, Ok(Ok(()))) {
            return Err(error);
        }
        let troubled = self.troubled.remove(queue);
        telemetry::queue_lost(queue, troubled.is_none(), &error_chain(&error));
        let mut backoff =
            troubled.map_or_else(|| Backoff::new(&self.worker.timing), |(backoff, _)| backoff);
        let next = Instant::now() + backoff.pause_after(SHORTEST_PAUSE);
        self.troubled.insert(queue.to_owned(), (backoff, next));
        Ok(())
    }

    /// Reports the timeouts without a consumer. Each existing shard needs a consumer, whatever the number of shards.
    fn report_consumed(&self) {
        let topology = &self.worker.topology;
        let is_consumed = |timeout: &&Timeout| {
            let (base, bases) =
                (topology.business_queue(timeout), topology.business_queues(timeout));
            let mut there = bases.iter().filter(|base| !self.missing.contains(*base));
            self.consumed().any(|queue| is_of(&base, queue))
                && there.all(|base| self.consumed().any(|queue| number_of(base, queue).is_some()))
        };
        let without = self.worker.rules.iter().filter(|timeout| !is_consumed(timeout));
        let without = without.map(|timeout| timeout.name.clone()).collect();
        self.worker.health.unconsumed(without, self.listed);
        telemetry::observed::consumed(self.consumed().count());
    }

    fn consumed(&self) -> impl Iterator<Item = &String> {
        self.running.iter().filter(|(_, running)| running.consumes).map(|(queue, _)| queue)
    }

    /// Opens the session when every queue is consumed, or at the next search for queues. Logs once that the worker is ready.
    fn report_ready(&mut self) {
        self.report_consumed();
        self.worker.health.session_opened();
        let names: Vec<String> = self.consumed().cloned().collect();
        if !names.is_empty() && !std::mem::replace(&mut self.is_reported, true) {
            let Worker { address, store, .. } = &*self.worker;
            telemetry::worker_ready(&names, &address.to_string(), store.address());
        }
    }

    /// Waits until every consumer has requeued its unsettled messages. Their results do not matter any more.
    async fn finish(&mut self) {
        // A silent broker delays the end, and no message arrives meanwhile.
        let rules = self.worker.rules.iter().map(|timeout| timeout.name.clone());
        self.worker.health.unconsumed(rules.collect(), self.listed);
        while self.tasks.join_next().await.is_some() {}
    }
}

/// When a queue without a consumer must be tried again.
fn next_try(
    troubled: &BTreeMap<String, (Backoff, Instant)>,
    is_running: impl Fn(&str) -> bool,
) -> Option<Instant> {
    let idle = troubled.iter().filter(|(queue, _)| !is_running(queue));
    idle.map(|(_, (_, at))| *at).min()
}

/// Consumes from one queue until a stop is requested or the connection is lost.
async fn serve(
    context: ConsumerContext,
    stop: Stop,
    opened: mpsc::UnboundedSender<String>,
) -> Result<(), SessionEnd> {
    let (worker, queue) = (&context.worker, &context.queue);
    let purpose = format!("overdue worker: consuming {queue}");
    let is_compat = context.timeout.name == WORD;
    let opening = async {
        let link = Arc::new(Link::open(&worker.address, &purpose).await?);
        link.gather_deliveries(limits::gathering(&worker.topology));
        let bodies = if is_compat { Bodies::Small } else { Bodies::Notices };
        let channels = DeliveryChannels::open(&link, queue, context.prefetch, bodies).await?;
        Ok::<_, SessionEnd>((link, channels))
    };
    let (link, channels) = tokio::select! {
        () = stop.requested() => return Ok(()),
        open = opening => open?,
    };
    // The receiver is gone if the session has ended.
    let _listens = opened.send(queue.clone());
    let result = if is_compat {
        compat::delay(context, channels, stop).await
    } else {
        queue_consumer::consume(context, channels, stop).await
    };
    if let Some(link) = Arc::into_inner(link) {
        link.close().await;
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::timing::Timing;

    /// The queue stays in `troubled` while it is consumed.
    #[test]
    fn a_queue_that_is_consumed_again_is_looked_for_no_more_often() {
        let now = Instant::now();
        let entry = |at| (Backoff::new(&Timing::default()), at);
        let later = now + SHORTEST_PAUSE;
        let troubled = [("a".to_owned(), entry(now)), ("b".to_owned(), entry(later))].into();
        assert_eq!(next_try(&troubled, |_| false), Some(now));
        assert_eq!(next_try(&troubled, |queue| queue == "a"), Some(later));
        assert_eq!(next_try(&troubled, |_| true), None);
    }
}
