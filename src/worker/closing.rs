//! Runs an effect on a batch: retries transient failures, and splits the batch until a failing row is alone.
//!
//! A statement waits for each lock up to a short time-out. After a time-out it skips locked rows, whose orders are busy. Of
//! the orders that stay busy, one at a time has a turn to wait longer. A batch is not split if no row can be at fault: the
//! connection ended, or the effect fails also without orders. Any other failure splits it, whatever its SQLSTATE: a trigger
//! may raise any.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    decisions::bisection::{BatchBisector, FailureScope, Verdict, acquit, any_closed},
    order::{OrderId, Outcome},
    store::{
        FailureKind, Store, StoreError,
        effects::Effect,
        failure::CANCELLED,
        orders::{ClosingPath, Waiting},
        pauses::Rule,
        pool::TransactionLimits,
    },
    telemetry,
    topology::Topology,
    wire::Traces,
    worker::contention::{BlockingPermit, ContentionLimiter},
};

/// Attempts at the same part before a deadlock is searched for row by row.
const ATTEMPTS: u32 = 3;
/// Longest random wait between these attempts.
const PAUSE: Duration = Duration::from_millis(50);
/// Other parts that are tried after as many orders have failed as `FailureScope` allows. Halving 4,000 down to a single order
/// takes half of these parts.
const ELSEWHERE: usize = 24;
/// Lock time-out of a statement of a burst, instead of the usual 50 ms: no message waits for it, and similar statements lock
/// the stock of many orders until they commit. Also for an order that has a turn.
const LONG_LOCK_TIMEOUT: Duration = Duration::from_millis(300);
/// After a lock time-out, statements skip locked rows for this time. So one batch per second, of all batches, waits for stock
/// that stays locked.
const SKIP_LOCKED_FOR: Duration = Duration::from_secs(1);

/// Why orders are closed, and the rule that applies to them.
#[derive(Clone, Copy)]
struct Asked<'a> {
    path: ClosingPath,
    rule: Rule<'a>,
    traces: &'a Traces,
    /// Whether this is the turn of one order, which waits longer for its locks.
    in_turn: bool,
}

/// How long a batch waits in total for the rate at the end of a pause.
const fn patience(path: ClosingPath) -> Duration {
    match path {
        // A batch that waits stops other batches; its messages can wait as early messages instead.
        ClosingPath::Message => Duration::from_secs(2),
        ClosingPath::Burst | ClosingPath::Sweep => Duration::from_mins(10),
    }
}

/// Outcome of an order whose timeout is paused for `rest`: it is early.
pub(super) fn until(rest: Duration) -> Outcome {
    // With a rest of zero the order would count as overdue and guarded.
    Outcome::NotDue { remaining: rest.max(Duration::from_millis(1)) }
}

/// Closes batches with one effect, and remembers the failures of earlier ones.
#[derive(Debug)]
pub(crate) struct Closer {
    store: Store,
    effect: Effect,
    topology: String,
    verdict: Mutex<Verdict>,
    skip_locked: SkipLocked,
    /// Statements of a burst lock stock longer than a batch of messages waits for it. Therefore lock time-outs of bursts and of
    /// other batches are recorded separately.
    skip_locked_in_burst: SkipLocked,
    /// Timeouts whose last query a pause refused; the name of the effect stands for queries without a timeout.
    paused: Mutex<BTreeSet<String>>,
    /// Whether a pause has refused orders, and its end was not reported yet.
    was_paused: AtomicBool,
    /// Batches that skip locked rows would skip each other's stock.
    one_at_a_time: tokio::sync::Mutex<()>,
    /// Connections that this effect may use, so that slow statements leave some to other effects. At least two, so that an order
    /// that waits for its stock does not stop other orders.
    share: Semaphore,
    contention: ContentionLimiter,
}

impl Closer {
    /// `effects` is the number of effects that share the connections.
    pub(crate) fn new(store: Store, effect: Effect, topology: &Topology, effects: usize) -> Self {
        let share = store.closing_connections().saturating_sub(effects.saturating_sub(1)).max(2);
        Self {
            store,
            topology: topology.name.clone(),
            effect,
            verdict: Mutex::default(),
            skip_locked: SkipLocked::default(),
            skip_locked_in_burst: SkipLocked::default(),
            paused: Mutex::default(),
            was_paused: AtomicBool::default(),
            one_at_a_time: tokio::sync::Mutex::default(),
            share: Semaphore::new(share),
            contention: ContentionLimiter::default(),
        }
    }

    pub(crate) const fn effect(&self) -> &Effect {
        &self.effect
    }

    /// Returns the outcome of each of `ids`, in the same order; all outcomes are committed. `traces`: of the notices. `timeout`:
    /// the timeout of the orders, if known, because it may be paused while other timeouts with this effect are not. After an error,
    /// parts of the batch may be committed; a repetition is safe.
    pub(crate) async fn outcomes(
        &self,
        ids: &[OrderId],
        traces: &Traces,
        path: ClosingPath,
        timeout: Option<&str>,
    ) -> Result<Vec<Outcome>, StoreError> {
        let rule = self.rule(timeout);
        let key = timeout.unwrap_or(rule.effect);
        let was_paused = self.paused.lock().contains(key);
        if was_paused && let Some(paused) = self.store.still_paused(rule).await? {
            return Err(paused);
        }
        let outcomes = self.of_unpaused(ids, Asked { path, rule, traces, in_turn: false }).await;
        match &outcomes {
            Err(StoreError::Paused { reason, per_second: None, .. }) => {
                self.was_paused.store(true, Ordering::Relaxed);
                if self.paused.lock().insert(key.to_owned()) {
                    telemetry::paused(key, reason);
                }
            }
            Ok(_) if was_paused && self.paused.lock().remove(key) => telemetry::unpaused(key),
            _ => {}
        }
        outcomes
    }

    /// Whether a pause that refused orders still lasts; `None` if no pause refused any, or its end was returned before.
    pub(super) async fn pause_lasts(&self) -> Result<Option<bool>, StoreError> {
        if !self.was_paused.load(Ordering::Relaxed) {
            return Ok(None);
        }
        let lasts = self.store.still_paused(self.rule(None)).await?.is_some();
        self.was_paused.store(lasts, Ordering::Relaxed);
        Ok(Some(lasts))
    }

    fn rule<'a>(&'a self, timeout: Option<&'a str>) -> Rule<'a> {
        Rule { topology: &self.topology, timeout, effect: &self.effect.name }
    }

    /// A turn for one busy order; `None` if another order has it, or if turns are paused.
    pub(crate) fn turn(&self, now: Instant) -> Option<BlockingPermit> {
        self.contention.next(now)
    }

    /// Returns the outcome of an order whose statement waits in PostgreSQL's queue for each row of its stock. If other sessions
    /// lock these rows one after the other, a statement that skips locked rows rarely finds all of them unlocked.
    pub(crate) async fn outcome_in_turn(
        &self,
        turn: BlockingPermit,
        id: &OrderId,
        traces: &Traces,
        timeout: &str,
    ) -> Result<Vec<Outcome>, StoreError> {
        let rule = self.rule(Some(timeout));
        let asked = Asked { path: ClosingPath::Message, rule, traces, in_turn: true };
        let began = Instant::now();
        let outcomes = self.of_unpaused(std::slice::from_ref(id), asked).await;
        let is_closed = outcomes.as_ref().is_ok_and(|outcomes| any_closed(outcomes));
        turn.end(is_closed, began.elapsed() >= LONG_LOCK_TIMEOUT, Instant::now());
        outcomes
    }

    async fn of_unpaused(
        &self,
        ids: &[OrderId],
        asked: Asked<'_>,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut batch = BatchBisector::new(ids.len(), Outcome::Unknown, ELSEWHERE);
        let mut works_without_orders = false;
        let mut limit = None;
        let (mut is_begun, mut waited) = (false, Duration::ZERO);
        while let Some(part) = batch.next_part() {
            let error = match self.attempt(&ids[part.clone()], asked, limit).await {
                Ok(outcomes) => {
                    let works = any_closed(&outcomes);
                    batch.answered(part, outcomes, works);
                    is_begun = true;
                    continue;
                }
                Err(StoreError::Paused { rest, per_second: Some(most), .. })
                    if waited + rest <= patience(asked.path) =>
                {
                    waited += rest;
                    tokio::time::sleep(rest).await;
                    batch.again(part, most);
                    continue;
                }
                // Committed orders must not be queried again.
                Err(StoreError::Paused { rest, .. }) if is_begun => {
                    batch.give_up(part, &until(rest));
                    continue;
                }
                Err(error) => error,
            };
            if !error.is_answer() {
                return Err(error);
            }
            if asked.in_turn && error.is_lock_timeout() {
                batch.give_up(part, &Outcome::Busy);
                continue;
            }
            if !works_without_orders {
                if let Err(whole) = self.try_without_orders(&error, asked).await {
                    let outcome = match whole {
                        // The whole table is locked: no order can be closed now.
                        whole if whole.is_lock_timeout() => Outcome::Busy,
                        StoreError::Paused { rest, .. } if is_begun => until(rest),
                        whole => return Err(whole),
                    };
                    batch.give_up(part, &outcome);
                    continue;
                }
                works_without_orders = true;
            }
            let alone = error.alone();
            if alone.suspect == FailureScope::Slow {
                limit = Some(self.store.timing().slow_part);
            }
            if part.len() == 1 && asked.path == ClosingPath::Message {
                self.verdict.lock().failed(&ids[part.start], &alone);
            }
            if !batch.failed(part, alone.suspect, alone.outcome()) {
                return Err(error);
            }
        }
        Ok(self.judged(ids, batch.into_outcomes(), asked.path))
    }

    /// An error if the effect also fails without orders, in the same way: then no row is at fault.
    async fn try_without_orders(
        &self,
        failure: &StoreError,
        asked: Asked<'_>,
    ) -> Result<(), StoreError> {
        match self.attempt(&[], asked, Some(self.store.timing().slow_part)).await {
            Err(error) if !error.is_answer() || error.code() == failure.code() => Err(error),
            _ => Ok(()),
        }
    }

    /// Decides for which failures the orders are at fault.
    fn judged(
        &self,
        ids: &[OrderId],
        mut outcomes: Vec<Outcome>,
        path: ClosingPath,
    ) -> Vec<Outcome> {
        if !any_closed(&outcomes) {
            // If no order was closed, a slow database may have caused the time-outs.
            acquit(&mut outcomes, CANCELLED);
        }
        // Orders of the sweep were often parked long ago: their failures do not show the present state.
        if path == ClosingPath::Message {
            self.verdict.lock().judge(ids, &mut outcomes);
        }
        self.report_postponed(ids, &outcomes);
        outcomes
    }

    fn report_postponed(&self, ids: &[OrderId], outcomes: &[Outcome]) {
        let mut postponed = ids.iter().zip(outcomes).filter_map(|(id, outcome)| match outcome {
            Outcome::Postponed { reason } => Some((id, reason)),
            _ => None,
        });
        if let Some((id, reason)) = postponed.next() {
            let orders = 1 + postponed.count();
            telemetry::postponed(&self.effect.name, orders, id.as_str(), reason);
        }
    }

    async fn attempt(
        &self,
        ids: &[OrderId],
        asked: Asked<'_>,
        limit: Option<Duration>,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut tries = 1;
        loop {
            match self.once(ids, asked, limit).await {
                Err(error) if is_worth_repeating(&error) && tries < ATTEMPTS => {
                    tries += 1;
                    tokio::time::sleep(PAUSE.mul_f64(rand::random::<f64>())).await;
                }
                result => return result,
            }
        }
    }

    /// Runs the effect once. After a lock time-out, a described effect skips locked rows, except in a turn.
    async fn once(
        &self,
        ids: &[OrderId],
        Asked { path, rule, traces, in_turn }: Asked<'_>,
        statement: Option<Duration>,
    ) -> Result<Vec<Outcome>, StoreError> {
        let (skip_locked, lock) = match path {
            ClosingPath::Burst => (&self.skip_locked_in_burst, Some(LONG_LOCK_TIMEOUT)),
            ClosingPath::Message | ClosingPath::Sweep => {
                (&self.skip_locked, in_turn.then_some(LONG_LOCK_TIMEOUT))
            }
        };
        let limits = TransactionLimits { lock, statement };
        let orders = (ids, traces, path);
        let run = async |waiting| {
            let _share = self.share.acquire().await;
            self.store.run_statement(&self.effect, orders, waiting, Some((rule, limits))).await
        };
        if in_turn || self.effect.description().is_none() {
            return run(Waiting::Waits).await;
        }
        if !skip_locked.lasts(Instant::now()) {
            let result = run(Waiting::Waits).await;
            if !result.as_ref().is_err_and(StoreError::is_lock_timeout) {
                return result;
            }
            skip_locked.begin(Instant::now());
        }
        let _alone = self.one_at_a_time.lock().await;
        run(Waiting::Passes).await
    }
}

/// When statements stop skipping locked rows.
#[derive(Debug, Default)]
struct SkipLocked(Mutex<Option<Instant>>);

impl SkipLocked {
    fn lasts(&self, now: Instant) -> bool {
        self.0.lock().is_some_and(|until| now < until)
    }

    fn begin(&self, now: Instant) {
        *self.0.lock() = Some(now + SKIP_LOCKED_FOR);
    }
}

/// A deadlock is over when it is reported, and statements that were prepared on a stale connection are gone with it. A lock
/// that caused a time-out still exists: the batch is split at once, and its other orders do not wait for the lock again.
fn is_worth_repeating(error: &StoreError) -> bool {
    error.is_stale() || error.kind() == FailureKind::Contention && !error.is_lock_timeout()
}
