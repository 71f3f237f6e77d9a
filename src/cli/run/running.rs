//! The worker of this process, and the one that takes its place.

use std::{
    collections::BTreeSet,
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, Instant},
};

use tokio::task::JoinHandle;

use super::super::exit::Failure;
use crate::{
    shutdown::{DrainOverrun, Stop},
    telemetry::{self, observed},
    worker::{self, Worker, watch},
};

/// How long the one that is replaced goes on at the most until its successor consumes.
const OVERLAP: Duration = Duration::from_secs(30);
/// How often that is looked at.
const LOOK: Duration = Duration::from_millis(50);

/// Who answers `/metrics` and the others: the newest worker that consumes.
#[derive(Clone)]
pub(super) struct Current(Arc<Mutex<Arc<Worker>>>);

impl Current {
    pub(super) fn new(worker: &Arc<Worker>) -> Self {
        Self(Arc::new(Mutex::new(Arc::clone(worker))))
    }

    pub(super) fn worker(&self) -> Arc<Worker> {
        Arc::clone(&self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn set(&self, worker: &Arc<Worker>) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(worker);
    }
}

/// A worker at work.
pub(super) struct Running {
    pub(super) worker: Arc<Worker>,
    stop: Stop,
    /// Looks at what `/metrics` and `/readyz` say.
    watch: Option<JoinHandle<()>>,
    task: JoinHandle<Result<(), DrainOverrun>>,
}

impl Running {
    /// Works until `stop` is requested. With `watched` it also looks at what `/metrics` and `/readyz` say.
    pub(super) fn start(worker: Arc<Worker>, stop: &Stop, watched: bool) -> Self {
        let stop = stop.child();
        let watch = watched.then(|| {
            worker.prepare_metrics();
            tokio::spawn(watch::watch(Arc::clone(&worker), stop.clone()))
        });
        let (works, stops) = (Arc::clone(&worker), stop.clone());
        let task = tokio::spawn(async move { worker::run(&works, &stops).await });
        Self { worker, stop, watch, task }
    }

    /// Waits until it has stopped.
    pub(super) async fn ended(&mut self) -> Result<(), Failure> {
        match (&mut self.task).await {
            Ok(ended) => Ok(ended?),
            Err(panic) => Err(Failure::failed(format!("the worker panicked: {panic}"))),
        }
    }

    /// `worker` takes over: when it consumes what this one does, this one finishes what it has in hand.
    ///
    /// # Errors
    /// Why it has not begun; this one goes on, and that one has been stopped.
    pub(super) async fn replace(
        &mut self,
        mut worker: Worker,
        stop: &Stop,
        watched: bool,
        current: &Current,
    ) -> Result<(), String> {
        worker.health.follow(&self.worker.health);
        let next = Self::start(Arc::new(worker), stop, watched);
        if let Err(reason) = next.until_it_has_begun(self).await {
            next.retire(&self.worker).await;
            return Err(reason);
        }
        current.set(&next.worker);
        let last = std::mem::replace(self, next);
        last.retire(&self.worker).await;
        Ok(())
    }

    async fn until_it_has_begun(&self, last: &Self) -> Result<(), String> {
        let (began, watched) = (Instant::now(), self.watch.is_some());
        while let Some(lacks) = self.worker.health.lacks(&last.worker.health, watched) {
            if began.elapsed() >= OVERLAP {
                let within = OVERLAP.as_secs();
                return Err(format!(
                    "with them a worker has not begun to work within {within} s: {lacks} (the lines above say why)"
                ));
            }
            tokio::select! {
                biased;
                () = self.stop.requested() => return Ok(()),
                () = tokio::time::sleep(LOOK) => {}
            }
        }
        Ok(())
    }

    /// Ends it; what is shown of its effects alone is not known any more.
    async fn retire(mut self, other: &Worker) {
        self.stop.request();
        if let Err(overrun) = self.ended().await {
            telemetry::reload::not_drained(&overrun.text);
        }
        if let Some(watch) = self.watch.take() {
            // Where it panicked it has ended as well.
            let _ended = watch.await;
        }
        let effects: BTreeSet<&String> = self.worker.effects.keys().collect();
        for effect in effects.difference(&other.effects.keys().collect()) {
            observed::forget(effect);
        }
    }
}
