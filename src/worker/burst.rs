//! A burst: if more orders are due at an instant than a batch holds, they are closed in the order of the index, ahead of their
//! messages. The messages say that many are due; the database knows which.
//!
//! A message that was in hand before its order was asked for in a burst is acked without a question once that has closed
//! the order. One that came later may be about a deadline that the order was given since, so it is asked for.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    task::JoinSet,
};

use super::{
    context::Worker,
    health::Task,
    pager::{PageAnswer, Pager, Paging},
    session::SessionEnd,
    sweep,
};
use crate::{
    decisions::{batch::Running, recently_closed::RecentlyClosed},
    order::{OrderId, Outcome},
    shutdown::Stop,
    store::{
        StoreError,
        orders::ClosingPath,
        overdue::{BurstLock, OverdueKey},
    },
    telemetry,
    text::error_chain,
};

/// 25 pages are about a second's work: for that long messages wait.
const PAGING: Paging = Paging { path: ClosingPath::Burst, orders: 2_000, at_once: 2, pages: 25 };
/// A pass with fewer orders is the last one: as many come by their messages as quickly.
const FEW: usize = 50;
/// Pause between two attempts to take the lock from a worker whose burst goes on, as long as messages wait: asking for what the other
/// worker is closing would take the locks and the CPU that it needs.
const TRY_AGAIN: Duration = Duration::from_millis(25);
/// Pause after a burst that has closed nothing.
const REST: Duration = Duration::from_millis(250);
/// A burst goes on behind the last one, since what that has passed over is left to its messages; after this long it begins with
/// the oldest order again. Without a burst for this long, what the last one has closed is forgotten.
const START_OVER: Duration = Duration::from_mins(1);

/// What is going on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// No task would begin one.
    Off,
    /// One can be asked for, from an instant on.
    Idle(Option<Instant>),
    /// One was asked for, or runs.
    Runs(Running),
}

/// The bursts of one effect, as their task and the consumers of its queues share them.
#[derive(Debug)]
pub(crate) struct Burst {
    wanted: Notify,
    state: watch::Sender<Phase>,
    closed: Mutex<RecentlyClosed>,
}

impl Default for Burst {
    fn default() -> Self {
        let state = watch::Sender::new(Phase::Off);
        Self { wanted: Notify::new(), state, closed: Mutex::default() }
    }
}

/// Says when a burst has begun, has ended a pass, or is over.
pub(super) struct Changes(watch::Receiver<Phase>);

impl Changes {
    pub(super) async fn next(&mut self) {
        if self.0.changed().await.is_err() {
            std::future::pending::<()>().await;
        }
    }
}

impl Burst {
    /// Asks for a burst, since much is due. Whether one begins.
    pub(super) fn want(&self, now: Instant) -> bool {
        let begins = self.state.send_if_modified(|state| {
            let begins = matches!(*state, Phase::Idle(from) if from <= Some(now));
            if begins {
                *state = Phase::Runs(Running { asked_for: now, moved: now, passed: None });
            }
            begins
        });
        if begins {
            self.wanted.notify_one();
        }
        begins
    }

    pub(super) fn changes(&self) -> Changes {
        Changes(self.state.subscribe())
    }

    /// The burst that messages wait for: one that runs, and has closed something of late.
    pub(super) fn awaited(&self, now: Instant) -> Option<Running> {
        match *self.state.borrow() {
            Phase::Runs(running) if now < running.given_up_at() => Some(running),
            _ => None,
        }
    }

    /// Whether there is one that was asked for no longer ago than `span`: one that goes on and on is a steady load.
    pub(super) fn is_young(&self, span: Duration, now: Instant) -> bool {
        self.awaited(now).is_some_and(|it| now.saturating_duration_since(it.asked_for) < span)
    }

    /// Whether an order was closed in a burst after a message about it was received.
    pub(super) fn has_closed(&self, id: &OrderId, received: Instant) -> bool {
        self.closed.lock().has_since(id, received)
    }

    /// It goes on. No consumer is woken: what is closed is acked many at a time.
    fn moved(&self, now: Instant) {
        self.state.send_if_modified(|state| {
            if let Phase::Runs(running) = state {
                running.moved = now;
            }
            false
        });
    }

    fn passed(&self, began: Instant) {
        self.state.send_modify(|state| {
            if let Phase::Runs(running) = state {
                running.passed = Some(began);
            }
        });
    }

    /// How many orders were closed.
    fn answered(&self, ids: &[OrderId], outcomes: &[Outcome], asked: Instant) -> usize {
        let is_closed = |outcome: &Outcome| matches!(outcome, Outcome::Closed { .. });
        let closed = ids.iter().zip(outcomes).filter(|(_, outcome)| is_closed(outcome));
        let count = self.closed.lock().add(closed.map(|(id, _)| id.clone()), asked);
        if count > 0 {
            self.moved(Instant::now());
        }
        count
    }
}

/// Closes a burst whenever a consumer asks for it, until a stop is asked for. One that fails is no more than over: the
/// messages are asked for one batch after the other, and say what is wrong.
pub(super) async fn bursts(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    let mut tasks = JoinSet::new();
    for (name, closer) in &worker.closers {
        if closer.effect().finds_overdue() {
            tasks.spawn(serve(Arc::clone(&worker), name.clone(), stop.clone()));
        }
    }
    while let Some(ended) = tasks.join_next().await {
        ended.map_err(|panic| SessionEnd::Panicked(panic.to_string()))??;
    }
    Ok(())
}

async fn serve(worker: Arc<Worker>, effect: String, stop: Stop) -> Result<(), SessionEnd> {
    let burst = &worker.bursts[&effect];
    let _serving = Serving::begin(burst);
    let alive = worker.health.task("burst", &effect, sweep::ALIVE_WITHIN);
    let (mut key, mut from_oldest) = (OverdueKey::first(), Instant::now());
    loop {
        alive.moved();
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = burst.wanted.notified() => {}
            () = tokio::time::sleep(START_OVER) => {
                *burst.closed.lock() = RecentlyClosed::default();
                continue;
            }
        }
        let began = Instant::now();
        if began - from_oldest >= START_OVER {
            (key, from_oldest) = (OverdueKey::first(), began);
        }
        let run = Run { worker: &worker, effect: &effect, burst, task: (&alive, &stop) };
        // A statement that runs when the stop comes is dropped, and so cancelled.
        let done = tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            done = run.run(&mut key) => done,
        };
        let took = began.elapsed();
        let closed = match done {
            Ok(closed) => {
                telemetry::burst_closed(&effect, closed, took);
                closed
            }
            Err(panic @ SessionEnd::Panicked(_)) => return Err(panic),
            Err(error) => {
                telemetry::burst_failed(&effect, &error_chain(&error));
                0
            }
        };
        let rest = if closed > 0 { Duration::ZERO } else { REST };
        let from = Instant::now() + rest;
        burst.state.send_replace(Phase::Idle(Some(from)));
    }
}

/// As long as it is there, bursts can be asked for.
struct Serving<'a>(&'a Burst);

impl<'a> Serving<'a> {
    fn begin(burst: &'a Burst) -> Self {
        burst.state.send_replace(Phase::Idle(None));
        Self(burst)
    }
}

impl Drop for Serving<'_> {
    fn drop(&mut self) {
        self.0.state.send_replace(Phase::Off);
    }
}

/// Pass after pass, until few orders become due meanwhile.
struct Run<'a> {
    worker: &'a Arc<Worker>,
    effect: &'a str,
    burst: &'a Burst,
    task: (&'a Task, &'a Stop),
}

impl Run<'_> {
    /// How many orders it closed; `key` is where it begins, and where it has ended.
    async fn run(&self, key: &mut OverdueKey) -> Result<usize, SessionEnd> {
        let Some(lock) = self.lock().await? else { return Ok(0) };
        let mut closed = 0;
        loop {
            let (worker, began) = (self.worker, Instant::now());
            let (grace, before) = (Duration::ZERO, key.clone());
            let mut pager = Pager::new(worker, self.effect, PAGING, grace, key.clone(), self.task);
            while let Some(PageAnswer { ids, outcomes, at, .. }) = pager.next().await? {
                // A page that fails is left to its messages, and the next burst goes on behind it.
                key.clone_from(&pager.key);
                let outcomes = match outcomes {
                    Err(StoreError::Paused { .. }) => {
                        lock.release().await?;
                        return Ok(closed);
                    }
                    outcomes => outcomes?,
                };
                closed += self.burst.answered(&ids, &outcomes, at);
                lock.keep().await?;
            }
            // Rows that are no orders have no key behind which it could go on.
            let is_at_end = pager.rows < FEW || pager.key == before;
            key.clone_from(&pager.key);
            self.burst.passed(began);
            if is_at_end {
                break;
            }
        }
        lock.release().await?;
        Ok(closed)
    }

    /// Workers share a burst: one closes it, and what the others wait for without success they close by their messages.
    async fn lock(&self) -> Result<Option<BurstLock<'_>>, StoreError> {
        while self.burst.awaited(Instant::now()).is_some() {
            if let Some(lock) = self.worker.store.lock_burst(self.effect).await? {
                return Ok(Some(lock));
            }
            tokio::time::sleep(TRY_AGAIN).await;
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::order::FinalState;

    /// A burst that was asked for at `now`.
    fn running(now: Instant) -> Burst {
        let burst = Burst::default();
        assert!(!burst.want(now) && burst.awaited(now).is_none(), "no task would begin one");
        burst.state.send_replace(Phase::Idle(None));
        assert!(burst.want(now) && !burst.want(now), "it is asked for once");
        burst
    }

    #[test]
    fn a_burst_is_awaited_as_long_as_it_closes_orders() {
        let now = Instant::now();
        let burst = running(now);
        let given_up = burst.awaited(now).expect("it has just begun").given_up_at();
        assert!(given_up > now && burst.awaited(given_up).is_none());
        burst.moved(given_up);
        let again = burst.awaited(given_up).expect("it has moved").given_up_at();
        assert!(again > given_up);
        assert!(burst.is_young(again - now, given_up) && !burst.is_young(given_up - now, given_up));
        burst.state.send_replace(Phase::Idle(Some(again)));
        assert!(burst.awaited(given_up).is_none(), "it is over");
        assert!(!burst.want(given_up) && burst.want(again), "it rests");
    }

    #[tokio::test]
    async fn whoever_waits_is_woken_by_the_end_of_a_pass_and_not_by_each_page() {
        let now = Instant::now();
        let burst = running(now);
        let mut changes = burst.changes();
        burst.moved(now);
        assert!(!changes.0.has_changed().unwrap());
        burst.passed(now);
        changes.next().await;
        assert_eq!(burst.awaited(now).unwrap().passed, Some(now));
    }

    #[test]
    fn only_closed_orders_are_remembered() {
        let received = Instant::now();
        let (burst, asked) = (running(received), received + TRY_AGAIN);
        let ids = ["o-1", "o-2", "o-3"].map(|id| OrderId::parse(id).unwrap());
        let state = FinalState::of_outcome("closed").unwrap();
        let closed = Outcome::Closed { late: Duration::ZERO, state };
        let outcomes = [closed, Outcome::AlreadyFinal, Outcome::Busy];
        assert_eq!(burst.answered(&ids, &outcomes, asked), 1);
        assert_eq!(ids.map(|id| burst.has_closed(&id, received)), [true, false, false]);
        assert!(!burst.has_closed(&OrderId::parse("o-1").unwrap(), asked));
    }
}
