//! Runs an effect on a batch: tries again what was only in the way, and splits until a bad row stands alone.
//!
//! A statement waits for each lock up to a short time-out, and takes only what is free after that; the rest is busy. Nothing is split where no row can be at fault: the connection has ended, or the effect fails without any order as
//! well. Everything else is, whatever its SQLSTATE: a trigger may raise any.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use crate::{
    decisions::{
        blame::{Blame, MANY},
        row_locks::{BusyOrders, Held},
        splitting::Splitting,
    },
    order::{OrderId, Outcome},
    store::{
        FailureKind, Store, StoreError,
        orders::{ClosingPath, Effect},
        pool::Limits,
    },
    telemetry,
};

/// Attempts at the same part before a deadlock is looked for row by row.
const ATTEMPTS: u32 = 3;
/// Longest random wait between them.
const PAUSE: Duration = Duration::from_millis(50);
/// Orders that fail alone, each after the statement time-out, before others are looked for that do not.
const SLOW: usize = 3;
/// For each lock, of a statement of a burst instead of the 50 ms of all others: no message waits for
/// it, and others like it hold the stock of many orders until they commit.
const BURST_LOCK_TIMEOUT: Duration = Duration::from_millis(300);
/// After a lock time-out the statements pass over locked rows for this long, so of all batches one per second waits for
/// stock that is kept locked.
const SKIP_LOCKED_FOR: Duration = Duration::from_secs(1);
/// SQLSTATE of a statement that was cancelled, as the statement time-out does.
const CANCELLED: &str = "57014";

/// Closes batches with one effect, and remembers what happened to those before.
#[derive(Debug)]
pub(crate) struct Closer {
    store: Store,
    effect: Effect,
    blame: Mutex<Blame>,
    busy: Mutex<BusyOrders>,
    skip_locked: SkipLocked,
    /// A burst's own statements keep stock longer than the batches of messages wait for it, so neither says anything of the
    /// other.
    skip_locked_in_burst: SkipLocked,
    /// Batches that pass over what is locked would pass over each other's stock.
    one_at_a_time: tokio::sync::Mutex<()>,
}

impl Closer {
    pub(crate) fn new(store: Store, effect: Effect) -> Self {
        Self {
            store,
            effect,
            blame: Mutex::default(),
            busy: Mutex::default(),
            skip_locked: SkipLocked::default(),
            skip_locked_in_burst: SkipLocked::default(),
            one_at_a_time: tokio::sync::Mutex::default(),
        }
    }

    pub(crate) const fn effect(&self) -> &Effect {
        &self.effect
    }

    /// What became of each of `ids`, in the same order; everything that says so is committed.
    ///
    /// # Errors
    /// The database is unavailable, overloaded or set up wrongly. Parts of the batch may be committed by then;
    /// asking again is safe.
    pub(crate) async fn outcomes(
        &self,
        ids: &[OrderId],
        path: ClosingPath,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut splitting = Splitting::new(ids.len());
        let mut works_without_orders = false;
        let mut limit = None;
        while let Some(part) = splitting.next_part() {
            let error = match self.attempt(&ids[part.clone()], path, limit).await {
                Ok(outcomes) => {
                    splitting.answered(part, outcomes);
                    continue;
                }
                Err(error) => error,
            };
            if !error.is_answer() {
                return Err(error);
            }
            if !works_without_orders {
                if let Err(whole) = self.try_without_orders(&error, path).await {
                    if !whole.is_lock_timeout() {
                        return Err(whole);
                    }
                    // A whole table is locked: none of them can be closed now.
                    splitting.give_up(part, &Outcome::Busy);
                    continue;
                }
                works_without_orders = true;
            }
            if is_cancelled(&error) {
                limit = Some(self.store.timing().slow_part);
            }
            let alone = of_one(&error);
            if part.len() == 1 && path == ClosingPath::Message {
                lock(&self.blame).failed(&ids[part.start], &alone);
            }
            splitting.failed(part, alone);
            if !splitting.goes_on(bearable(&error)) {
                return Err(error);
            }
        }
        let outcomes = self.judged(ids, splitting, path);
        self.report_held(ids, &outcomes).await;
        Ok(outcomes)
    }

    /// # Errors
    /// It fails in the same way: then it is nothing that a row does.
    async fn try_without_orders(
        &self,
        failure: &StoreError,
        path: ClosingPath,
    ) -> Result<(), StoreError> {
        match self.attempt(&[], path, Some(self.store.timing().slow_part)).await {
            Err(error) if !error.is_answer() || error.code() == failure.code() => Err(error),
            _ => Ok(()),
        }
    }

    /// Which failures are the orders' own.
    fn judged(&self, ids: &[OrderId], splitting: Splitting, path: ClosingPath) -> Vec<Outcome> {
        let others_closed = splitting.has_closed();
        let mut outcomes = splitting.into_outcomes();
        if !others_closed {
            // Where nothing else works either it can be the database that is slow.
            for outcome in &mut outcomes {
                postpone_cancelled(outcome);
            }
        }
        // What the sweep finds was often parked long ago: it says nothing about the orders of today.
        if path == ClosingPath::Message {
            lock(&self.blame).judge(ids, &mut outcomes);
        }
        self.report_postponed(ids, &outcomes);
        outcomes
    }

    /// Who holds orders for long.
    async fn report_held(&self, ids: &[OrderId], outcomes: &[Outcome]) {
        let held = lock(&self.busy).observe(ids, outcomes, Instant::now());
        let Some(Held { orders, named, since }) = held else { return };
        let lock = self.store.lock_of(&self.effect, named.get(..1).unwrap_or_default()).await;
        let named: Vec<&str> = named.iter().map(OrderId::as_str).collect();
        telemetry::held(&self.effect.name, orders, &named, since, &lock.to_string());
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
        path: ClosingPath,
        limit: Option<Duration>,
    ) -> Result<Vec<Outcome>, StoreError> {
        let mut tries = 1;
        loop {
            match self.once(ids, path, limit).await {
                Err(error) if is_worth_repeating(&error) && tries < ATTEMPTS => {
                    tries += 1;
                    tokio::time::sleep(PAUSE.mul_f64(rand::random::<f64>())).await;
                }
                result => return result,
            }
        }
    }

    /// Waits for locks up to the time-out; after one that has passed it takes what is free.
    async fn once(
        &self,
        ids: &[OrderId],
        path: ClosingPath,
        statement: Option<Duration>,
    ) -> Result<Vec<Outcome>, StoreError> {
        let (skip_locked, lock) = match path {
            ClosingPath::Burst => (&self.skip_locked_in_burst, Some(BURST_LOCK_TIMEOUT)),
            ClosingPath::Message | ClosingPath::Sweep => (&self.skip_locked, None),
        };
        let limits = Limits { lock, statement };
        let run = |sql| self.store.run_limited(&self.effect, sql, ids, path, limits);
        let Some(contended_sql) = self.effect.contended_sql() else {
            return run(&self.effect.sql).await;
        };
        if !skip_locked.lasts(Instant::now()) {
            let result = run(&self.effect.sql).await;
            if !result.as_ref().is_err_and(StoreError::is_lock_timeout) {
                return result;
            }
            skip_locked.begin(Instant::now());
        }
        let _alone = self.one_at_a_time.lock().await;
        run(contended_sql).await
    }
}

/// Until when locked rows are passed over.
#[derive(Debug, Default)]
struct SkipLocked(Mutex<Option<Instant>>);

impl SkipLocked {
    fn lasts(&self, now: Instant) -> bool {
        lock(&self.0).is_some_and(|until| now < until)
    }

    fn begin(&self, now: Instant) {
        *lock(&self.0) = Some(now + SKIP_LOCKED_FOR);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What a failure says about the only order that was asked for.
fn of_one(error: &StoreError) -> Outcome {
    let (reason, cause) = (error.answer(), error.code().map_or("", |code| code.code()).to_owned());
    match error.kind() {
        FailureKind::Contention => Outcome::Busy,
        FailureKind::Row | FailureKind::Configuration => Outcome::Failed { cause, reason },
        FailureKind::Overloaded if cause == CANCELLED => Outcome::Failed { cause, reason },
        FailureKind::Overloaded | FailureKind::Unavailable => Outcome::Postponed { reason },
    }
}

fn is_cancelled(error: &StoreError) -> bool {
    error.code().is_some_and(|code| code.code() == CANCELLED)
}

fn postpone_cancelled(outcome: &mut Outcome) {
    if let Outcome::Failed { cause, reason } = outcome
        && cause == CANCELLED
    {
        *outcome = Outcome::Postponed { reason: std::mem::take(reason) };
    }
}

/// So many orders may fail alone like this, and none be closed, before it can be the database that fails: disk, memory, time.
fn bearable(error: &StoreError) -> usize {
    match error.kind() {
        FailureKind::Overloaded if is_cancelled(error) => SLOW,
        FailureKind::Overloaded | FailureKind::Unavailable => MANY,
        FailureKind::Contention | FailureKind::Row | FailureKind::Configuration => usize::MAX,
    }
}

/// A deadlock is over when it is reported, and what was prepared on a stale connection is gone with it. A lock that
/// was waited for in vain is still held, so the batch is split at once and the others do not wait for it again.
fn is_worth_repeating(error: &StoreError) -> bool {
    error.is_stale() || error.kind() == FailureKind::Contention && !error.is_lock_timeout()
}
