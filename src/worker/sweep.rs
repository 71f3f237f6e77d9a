//! The safety net: closes what is overdue in the database and was never delivered.
//!
//! Every worker sweeps; the effect's guard makes it harmless that two find the same order.

mod uncovered;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::{
    backoff::jitter,
    closing::Closer,
    context::Worker,
    counters::count,
    health::{Task, Work},
    session::SessionEnd,
};
use crate::{
    order::{FinalStates, OrderId, Outcome},
    shutdown::Stop,
    store::{
        StoreError,
        orders::{ClosingPath, Effect},
        overdue::OverdueKey,
    },
    telemetry,
    text::error_chain,
};

/// Orders closed in one transaction by the sweep.
const SWEEP_SIZE: i64 = 500;

/// What runs when a stop is asked for may end in this time: what it closes is counted, and its events go out.
const LAST_PAGE: Duration = Duration::from_secs(5);

/// A page of orders that all fail alone takes minutes.
const ALIVE_WITHIN: Duration = Duration::from_mins(30);

/// Looks at once and then after every interval, until a stop is asked for: what runs then has five seconds to end.
///
/// Once per effect: timeouts that share one find the same orders. A sweep that fails is logged and tried again after
/// the next interval: it does not end the session, and no effect waits for another.
pub(super) async fn sweep(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let mut sweeps = JoinSet::new();
    for effect in worker.closers.keys() {
        sweeps.spawn(keep_sweeping(Arc::clone(&worker), effect.clone(), stop.clone()));
    }
    while let Some(ended) = sweeps.join_next().await {
        ended.map_err(|panic| SessionEnd::Panicked(panic.to_string()))?;
    }
    Ok(())
}

async fn keep_sweeping(worker: Arc<Worker>, effect: String, stop: Stop) {
    let interval = worker.settings.sweep_every.as_duration();
    let alive = worker.health.task("sweep", &effect, interval + ALIVE_WITHIN);
    loop {
        alive.moved();
        let mut sweep = Sweep::new(&worker, &worker.closers[&effect], &alive, &stop);
        // A statement that takes longer is dropped, and so cancelled.
        let last_page = LAST_PAGE.min(worker.settings.drain.as_duration() / 2);
        let swept = stop.within(last_page, || {}, sweep.run()).await.unwrap_or(Ok(()));
        sweep.report();
        match &swept {
            Err(error) => {
                let reason = error_chain(error);
                telemetry::sweep_failed(&effect, &reason);
                worker.health.failed(Work::Sweep, &effect, &reason);
            }
            Ok(()) if worker.health.works(Work::Sweep, &effect) => telemetry::sweep_works(&effect),
            Ok(()) => {}
        }
        tokio::select! {
            biased;
            () = stop.requested() => return,
            () = tokio::time::sleep(jitter(interval)) => {}
        }
    }
}

/// One look at everything that is overdue.
struct Sweep<'a> {
    worker: &'a Worker,
    closer: &'a Closer,
    alive: &'a Task,
    stop: &'a Stop,
    /// Whether the last page was given up.
    gave_up: bool,
    swept: usize,
    /// Of these, those whose notices were not published yet.
    unpublished: usize,
    states: FinalStates,
    refused: usize,
    /// Why the first of them was refused.
    example: Option<String>,
}

impl<'a> Sweep<'a> {
    fn new(worker: &'a Worker, closer: &'a Closer, alive: &'a Task, stop: &'a Stop) -> Self {
        let states = FinalStates::default();
        let (gave_up, swept, unpublished, refused, example) = (false, 0, 0, 0, None);
        Self { worker, closer, alive, stop, gave_up, swept, unpublished, states, refused, example }
    }

    /// Page by page: what cannot be closed is passed over, and hides nothing behind it.
    async fn run(&mut self) -> Result<(), StoreError> {
        if let Err(error) = self.close_uncovered().await {
            // These tables are not what the others are found in.
            telemetry::uncovered_failed(&self.closer.effect().name, &error_chain(&error));
        }
        self.unpublished = self.swept;
        let (effect, grace) = (self.closer.effect(), self.worker.settings.sweep_grace);
        let mut key = OverdueKey::first();
        while !self.stop.is_requested() {
            self.alive.moved();
            let (store, grace) = (&self.worker.store, grace.as_duration());
            let page = store.overdue_page(effect, &key, SWEEP_SIZE, grace).await?;
            let Some(page) = page else { return Ok(()) };
            self.example = self.example.take().or_else(|| page.refused.first().cloned());
            self.refused += page.refused.len();
            self.ask(&page.ids).await?;
            let is_last = i64::try_from(page.rows).is_ok_and(|rows| rows < SWEEP_SIZE);
            let is_further = page.next != key;
            key = page.next;
            if is_last || !is_further {
                break;
            }
        }
        Ok(())
    }

    /// What became of each; `None` where the page was given up, and the next one may do.
    ///
    /// # Errors
    /// The database does not answer, or it is the second page after each other that it does not close.
    async fn ask(&mut self, ids: &[OrderId]) -> Result<Option<Vec<Outcome>>, StoreError> {
        match self.close_page(ids).await {
            Err(error) if error.is_answer() && !self.gave_up => {
                self.gave_up = true;
                let effect = &self.closer.effect().name;
                telemetry::sweep_passed_over(effect, ids.len(), &error_chain(&error));
                Ok(None)
            }
            outcomes => {
                self.gave_up = false;
                outcomes.map(Some)
            }
        }
    }

    async fn close_page(&mut self, ids: &[OrderId]) -> Result<Vec<Outcome>, StoreError> {
        let began = Instant::now();
        let outcomes = self.closer.outcomes(ids, ClosingPath::Sweep).await?;
        let (effect, path) = (&self.closer.effect().name, ClosingPath::Sweep.as_str());
        if !ids.is_empty() {
            let timeouts = self.worker.timeouts_of(effect);
            telemetry::batch_closed(&timeouts, path, &outcomes, began.elapsed());
        }
        let is_closed = |outcome: &&Outcome| matches!(outcome, Outcome::Closed { .. });
        let closed = outcomes.iter().filter(is_closed).count();
        if closed > 0 {
            self.swept += closed;
            self.states.add(outcomes.iter().filter_map(Outcome::final_state));
            count(&self.worker.counters.swept, closed);
            self.worker.events.notify_one();
            self.worker.health.closed(effect);
        }
        Ok(outcomes)
    }

    fn report(&self) {
        let Effect { name, overdue_file, .. } = self.closer.effect();
        telemetry::observed::sweep_refused(name, self.refused);
        if self.swept > 0 {
            telemetry::swept(name, self.swept, self.unpublished, &self.states);
        }
        if let Some(example) = &self.example {
            telemetry::sweep_refused(name, overdue_file, self.refused, example);
        }
    }
}
