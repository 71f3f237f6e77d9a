//! A worker in the test's own process.

use std::sync::Arc;

use overdue::internals::{
    broker::BrokerAddress,
    config::{EventsSettings, Settings, WorkerSettings},
    shutdown::{DrainOverrun, Stop},
    store::{Store, orders::Effect},
    topology::level::Interval,
    worker::{self, Counts, Worker},
};
use tokio::task::JoinHandle;

use super::{World, until, wait::awaited};

/// A worker that runs until it is stopped or dropped.
pub struct RunningWorker {
    pub worker: Arc<Worker>,
    stop: Stop,
    task: JoinHandle<Result<(), DrainOverrun>>,
}

impl RunningWorker {
    /// Stops the worker, and waits for its end; returns its counts.
    pub async fn stop(mut self) -> Counts {
        self.stop.request();
        let ended = awaited("the worker's stop", &mut self.task).await;
        ended.expect("the worker panicked").expect("the worker drains in time");
        self.counts()
    }

    /// Stops the worker; asserts its counts of retried and parked messages.
    pub async fn stops_after(self, retried: u64, parked: u64) -> Counts {
        let counts = self.stop().await;
        assert_eq!((counts.retried, counts.parked), (retried, parked), "{counts:?}");
        counts
    }

    pub fn counts(&self) -> Counts {
        self.worker.counters.read()
    }

    /// Waits until the counts are enough. The worker counts an order after the commit, and a copy after the broker's answer.
    pub async fn until(&self, what: &str, enough: impl Fn(&Counts) -> bool) -> Counts {
        until(what, async || self.counts(), enough).await
    }

    pub fn is_running(&self) -> bool {
        !self.task.is_finished()
    }
}

impl Drop for RunningWorker {
    fn drop(&mut self) {
        self.stop.request();
        self.task.abort();
    }
}

/// A duration in the type of the settings.
pub fn millis(text: &str) -> Interval {
    text.parse().unwrap()
}

/// Default settings, with a late sweep, and a long drain for slow machines.
pub fn settings() -> WorkerSettings {
    WorkerSettings {
        drain: millis("1m"),
        sweep_every: millis("1h"),
        sweep_grace: millis("1h"),
        ..Settings::default().worker
    }
}

impl World {
    /// Starts a worker with the defaults and without a sweep.
    pub fn worker(&self) -> RunningWorker {
        self.worker_with(settings())
    }

    pub fn worker_with(&self, settings: WorkerSettings) -> RunningWorker {
        self.worker_at(self.address(), &self.services.database_url(None), settings)
    }

    /// Starts a worker without a statement time-out: the test may stall its statements, however slow the machine is.
    pub fn patient_worker(&self, settings: WorkerSettings) -> RunningWorker {
        self.worker_at(self.address(), &self.database_with_statement_timeout("0"), settings)
    }

    /// The database URL with another statement time-out.
    pub fn database_with_statement_timeout(&self, limit: &str) -> String {
        let url = self.services.database_url(None);
        let more = if url.contains('?') { '&' } else { '?' };
        format!("{url}{more}options=-c%20statement_timeout%3D{limit}")
    }

    /// Starts a worker with other addresses of its services.
    #[allow(clippy::needless_pass_by_value, reason = "callers make the address for it")]
    pub fn worker_at(
        &self,
        address: BrokerAddress,
        database_url: &str,
        settings: WorkerSettings,
    ) -> RunningWorker {
        let store = Store::new(database_url, &self.search_path, 8).unwrap();
        self.start_worker(&address, store, &Effect::close(), settings, EventsSettings::default())
    }

    /// Starts a worker that publishes events in another way, or not at all.
    pub fn worker_of_events(
        &self,
        settings: WorkerSettings,
        events: EventsSettings,
    ) -> RunningWorker {
        let open = if events.publish { Store::new } else { Store::without_events };
        let store = open(&self.services.database_url(None), &self.search_path, 8).unwrap();
        self.start_worker(&self.address(), store, &Effect::close(), settings, events)
    }

    /// Starts a worker with another effect than `close`.
    #[allow(clippy::needless_pass_by_value, reason = "callers make the effect for it")]
    pub fn worker_of(&self, effect: Effect, settings: WorkerSettings) -> RunningWorker {
        let store = Store::new(&self.services.database_url(None), &self.search_path, 8).unwrap();
        self.start_worker(&self.address(), store, &effect, settings, EventsSettings::default())
    }

    /// Starts a worker with another effect and database URL, e.g. as another user.
    #[allow(clippy::needless_pass_by_value, reason = "callers make the effect for it")]
    pub fn worker_in(
        &self,
        store: Store,
        effect: Effect,
        settings: WorkerSettings,
    ) -> RunningWorker {
        self.start_worker(&self.address(), store, &effect, settings, EventsSettings::default())
    }

    fn start_worker(
        &self,
        address: &BrokerAddress,
        store: Store,
        effect: &Effect,
        settings: WorkerSettings,
        events: EventsSettings,
    ) -> RunningWorker {
        let effects = self.topology.timeouts.iter().map(|t| (t.effect.clone(), effect.clone()));
        let worker = Worker::new(
            address.clone(),
            Some(self.services.management_of(address)),
            store.with_timing(self.services.timing.clone()),
            self.topology.clone(),
            effects.collect(),
            settings,
        );
        let worker = Arc::new(worker.with_events(events));
        let stop = Stop::new();
        let (running, stopping) = (Arc::clone(&worker), stop.clone());
        let task = tokio::spawn(async move { worker::run(&running, &stopping).await });
        RunningWorker { worker, stop, task }
    }
}
