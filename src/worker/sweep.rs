//! Closes overdue orders that no message was delivered for.
//!
//! Every worker sweeps. Two workers may find the same order: the effect's guard makes that harmless.

use std::{
    mem,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    backoff::jitter,
    clock_watch,
    context::Worker,
    health::{Task, Work},
    pager::{PageAnswer, Pager, Paging, close},
    session::SessionEnd,
};
use crate::{
    config::PublishScheduled,
    order::{FinalStates, OrderId, Outcome},
    shutdown::Stop,
    store::{StoreError, orders::ClosingPath, overdue::OverdueKey, schedule::ScheduleUse},
    telemetry,
    text::error_chain,
};

/// Small pages, one after the other: messages have priority.
const PAGING: Paging =
    Paging { path: ClosingPath::Sweep, orders: 500, at_once: 1, pages: usize::MAX };

/// Grace of an order whose notice the broker never confirmed, so that no message is queued for it. The notice of an order that
/// is due at once may be in transit for milliseconds.
const UNCOVERED_GRACE: Duration = Duration::from_secs(5);

/// The longest step of a sweep: a page takes minutes if each of its orders fails alone.
pub(super) const ALIVE_WITHIN: Duration = Duration::from_mins(30);

/// Sweeps at once and then after every interval, until a stop is requested: a running statement may end then.
///
/// Runs once per effect, because timeouts with the same effect find the same orders. A failed sweep is logged and tried again
/// after the next interval: it does not end the session, and no effect waits for another.
pub(super) async fn sweep(
    worker: Arc<Worker>,
    effect: String,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let interval = worker.settings.sweep_every.as_duration();
    let alive = worker.health.task("sweep", &effect, interval + ALIVE_WITHIN);
    let mut key = OverdueKey::first();
    loop {
        alive.moved();
        let mut sweep = Sweep::new(&worker, &effect, &alive, &stop);
        // A statement that takes longer is dropped, and so cancelled.
        let last_page = worker.timing.last_page.min(worker.settings.drain.as_duration() / 2);
        let swept = stop.within(last_page, || {}, sweep.run(&mut key)).await.unwrap_or(Ok(()));
        sweep.report();
        let looked = sweep.looked;
        // Reading takes at most a tenth of the time: the pause is at least nine times as long as the reading.
        let next = jitter(interval).max(looked * 9);
        match swept {
            Err(panic @ SessionEnd::Panicked(_)) => return Err(panic),
            // The reader of the table closes the due orders when the pause ends.
            Err(SessionEnd::Store(StoreError::Paused { .. })) => {}
            Err(error) => {
                let reason = error_chain(&error);
                telemetry::sweep_failed(&effect, &reason);
                worker.health.failed(Work::Sweep, &effect, &reason);
            }
            Ok(()) if worker.health.works(Work::Sweep, &effect) => telemetry::sweep_works(&effect),
            Ok(()) => {}
        }
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = tokio::time::sleep(next) => {}
        }
    }
}

/// A sweep over all overdue orders of an effect.
struct Sweep<'a> {
    worker: &'a Arc<Worker>,
    effect: &'a str,
    alive: &'a Task,
    stop: &'a Stop,
    /// Whether the last page was given up.
    gave_up: bool,
    swept: usize,
    /// Swept orders whose notices were not published yet.
    unpublished: usize,
    states: FinalStates,
    refused: usize,
    /// Error of the first refused row.
    example: Option<String>,
    /// Failed orders, and the first of them with its error.
    failed: (usize, Option<(OrderId, String)>),
    /// Time spent on reading overdue orders.
    looked: Duration,
}

impl<'a> Sweep<'a> {
    fn new(worker: &'a Arc<Worker>, effect: &'a str, alive: &'a Task, stop: &'a Stop) -> Self {
        let states = FinalStates::default();
        let (gave_up, swept, unpublished, refused, example) = (false, 0, 0, 0, None);
        let (failed, looked) = ((0, None), Duration::ZERO);
        Self {
            worker,
            effect,
            alive,
            stop,
            gave_up,
            swept,
            unpublished,
            states,
            refused,
            example,
            failed,
            looked,
        }
    }

    /// Begins at `key`. After a failure, the next sweep begins behind the failed page. At the end of the overdue orders, the
    /// sweep continues with the oldest.
    async fn run(&mut self, key: &mut OverdueKey) -> Result<(), SessionEnd> {
        // There may have been a failover since the last sweep.
        clock_watch::read(self.worker).await?;
        if let Err(error) = self.close_uncovered().await {
            if error.paused().is_some() {
                return Err(error.into());
            }
            // A failure of the tables of `schedule()` does not stop the sweep of other overdue orders.
            telemetry::uncovered_failed(self.effect, &error_chain(&error));
        }
        self.unpublished = self.swept;
        let grace = self.worker.settings.sweep_grace.as_duration();
        let mut from = mem::replace(key, OverdueKey::first());
        loop {
            let (is_of_all, task) = (from == OverdueKey::first(), (self.alive, self.stop));
            let mut pager = Pager::new(self.worker, self.effect, PAGING, grace, from, task);
            if let Err(error) = self.follow(&mut pager).await {
                if !matches!(error, SessionEnd::Store(StoreError::Paused { .. })) {
                    *key = pager.key;
                }
                return Err(error);
            }
            if is_of_all {
                return Ok(());
            }
            (from, self.refused) = (OverdueKey::first(), 0);
        }
    }

    async fn follow(&mut self, pager: &mut Pager<'_>) -> Result<(), SessionEnd> {
        while let Some(asked) = pager.next().await? {
            self.looked += mem::take(&mut pager.looked);
            self.answered(asked)?;
        }
        self.looked += pager.looked;
        Ok(())
    }

    /// Closes orders whose notice was never confirmed, page by page. Deletes the notices of final orders, which would be
    /// published needlessly.
    async fn close_uncovered(&mut self) -> Result<(), StoreError> {
        let store = &self.worker.store;
        if self.worker.schedule.publish == PublishScheduled::Off
            || store.schedule_lacks(ScheduleUse::Published).await?.is_some()
        {
            return Ok(());
        }
        let of_effect = self.worker.topology.timeouts.iter().filter(|it| it.effect == self.effect);
        let timeouts: Vec<&str> = of_effect.map(|timeout| timeout.name.as_str()).collect();
        let grace = UNCOVERED_GRACE.min(self.worker.settings.sweep_grace.as_duration());
        let mut after = 0;
        while !self.stop.is_requested() {
            self.alive.moved();
            let page = store.uncovered(&timeouts, grace, after, PAGING.orders).await?;
            // The clock is read after each page, as for overdue orders.
            clock_watch::read(self.worker).await?;
            if self.worker.clock.leap(Instant::now()).is_some() {
                return Ok(());
            }
            let Some(last) = page.last() else { return Ok(()) };
            after = last.id;
            let asked = page.into_iter().filter_map(|notice| Some((notice.id, notice.order?)));
            let (rows, ids): (Vec<i64>, Vec<OrderId>) = asked.unzip();
            let (worker, effect) = (Arc::clone(self.worker), self.effect.to_owned());
            let asked = close(worker, effect, PAGING.path, ids.clone(), Vec::new()).await;
            let Some(outcomes) = self.answered(asked)? else { continue };
            let is_final = |outcome: &Outcome| {
                matches!(outcome, Outcome::Closed { .. } | Outcome::AlreadyFinal)
            };
            let notices = rows.into_iter().zip(ids.iter().map(OrderId::as_str));
            let done = notices.zip(&outcomes).filter(|(_, outcome)| is_final(outcome));
            let (rows, orders): (Vec<i64>, Vec<&str>) = done.map(|(notice, _)| notice).unzip();
            store.forget_notices(&rows, &orders).await?;
        }
        Ok(())
    }

    /// The outcomes of a page; `None` if the page failed, and the next one may succeed. An error if the database does not
    /// answer, or after two failed pages in a row.
    fn answered(&mut self, asked: PageAnswer) -> Result<Option<Vec<Outcome>>, StoreError> {
        self.refused += asked.refused.len();
        self.example = self.example.take().or_else(|| asked.refused.into_iter().next());
        let outcomes = match asked.outcomes {
            Err(error) if error.is_answer() && !self.gave_up => {
                self.gave_up = true;
                let reason = error_chain(&error);
                telemetry::sweep_passed_over(self.effect, asked.ids.len(), &reason);
                return Ok(None);
            }
            outcomes => outcomes?,
        };
        self.gave_up = false;
        for (id, outcome) in asked.ids.iter().zip(&outcomes) {
            if let Outcome::Failed { reason, .. } = outcome {
                self.failed.0 += 1;
                self.failed.1.get_or_insert_with(|| (id.clone(), reason.clone()));
            }
        }
        let is_closed = |outcome: &&Outcome| matches!(outcome, Outcome::Closed { .. });
        self.swept += outcomes.iter().filter(is_closed).count();
        self.states.add(outcomes.iter().filter_map(Outcome::final_state));
        Ok(Some(outcomes))
    }

    fn report(&self) {
        let effect = self.worker.closers[self.effect].effect();
        let (name, [_, place]) = (&effect.name, effect.places());
        telemetry::observed::sweep_refused(name, self.refused);
        if self.swept > 0 {
            telemetry::swept(name, self.swept, self.unpublished, &self.states);
        }
        if let Some(example) = &self.example {
            telemetry::sweep_refused(name, place, self.refused, example);
        }
        if let (orders, Some((order, reason))) = &self.failed {
            telemetry::sweep_rows_failed(name, *orders, order.as_str(), reason);
        }
    }
}
