//! Runs an effect on a batch: tries again what was only in the way, and splits until a bad row stands alone.
//!
//! A statement waits for each lock up to a short time-out, and takes only what is free after that; the rest is busy. Of
//! what stays busy one order at a time has a turn to wait for longer. Nothing is split where no row can be at fault: the
//! connection has ended, or the effect fails without any order as well. Everything else is, whatever its SQLSTATE: a
//! trigger may raise any.

use std::{
    collections::BTreeSet,
    sync::atomic::{AtomicBool, Ordering},
    time::{Duration, Instant},
};

use parking_lot::Mutex;
use tokio::sync::Semaphore;

use crate::{
    decisions::verdict::{Isolation, Suspect, Verdict, acquit, any_closed},
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
    worker::turns::{Turn, Turns},
};

/// Attempts at the same part before a deadlock is looked for row by row.
const ATTEMPTS: u32 = 3;
/// Longest random wait between them.
const PAUSE: Duration = Duration::from_millis(50);
/// Parts that are asked for elsewhere once as many orders have failed as can be borne. Halving down to a single order of 4,000
/// takes half of them.
const ELSEWHERE: usize = 24;
/// For each lock, of a statement of a burst instead of the usual 50 ms: no message waits for it, and
/// others like it hold the stock of many orders until they commit. Also of an order that has a turn.
const LONG_LOCK_TIMEOUT: Duration = Duration::from_millis(300);
/// After a lock time-out the statements pass over locked rows for this long, so of all batches one per second waits for
/// stock that is kept locked.
const SKIP_LOCKED_FOR: Duration = Duration::from_secs(1);

/// What made orders due, and whose they are.
#[derive(Clone, Copy)]
struct Asked<'a> {
    path: ClosingPath,
    rule: Rule<'a>,
    traces: &'a Traces,
    /// For one order that waits for its locks for longer.
    in_turn: bool,
}

/// How long a batch waits in all for the rate at which a pause ends.
const fn patience(path: ClosingPath) -> Duration {
    match path {
        // It stands in the way of others; its messages wait as well elsewhere.
        ClosingPath::Message => Duration::from_secs(2),
        ClosingPath::Burst | ClosingPath::Sweep => Duration::from_mins(10),
    }
}

/// Of an order whose timeout is paused for so long: it is as early as any other.
pub(super) fn until(rest: Duration) -> Outcome {
    // Without a rest it would be overdue and guarded.
    Outcome::NotDue { remaining: rest.max(Duration::from_millis(1)) }
}

/// Closes batches with one effect, and remembers what happened to those before.
#[derive(Debug)]
pub(crate) struct Closer {
    store: Store,
    effect: Effect,
    topology: String,
    verdict: Mutex<Verdict>,
    skip_locked: SkipLocked,
    /// A burst's own statements keep stock longer than the batches of messages wait for it, so neither says anything of the
    /// other.
    skip_locked_in_burst: SkipLocked,
    /// Timeouts that were paused when orders of theirs were asked for last, and the effect if one of its timeouts was.
    paused: Mutex<BTreeSet<String>>,
    /// Whether a pause has refused orders whose end was not said yet.
    was_paused: AtomicBool,
    /// Batches that pass over what is locked would pass over each other's stock.
    one_at_a_time: tokio::sync::Mutex<()>,
    /// Connections that it may hold: others have some left, however long the statements of this one take. With one alone, an order
    /// that waits for its stock would hold up the rest.
    share: Semaphore,
    turns: Turns,
}

impl Closer {
    /// One of so many `effects` that share the connections.
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
            turns: Turns::default(),
        }
    }

    pub(crate) const fn effect(&self) -> &Effect {
        &self.effect
    }

    /// What became of each of `ids`, in the same order; everything that says so is committed. `traces` are of their notices;
    /// `timeout` is theirs, where it is known: it can be paused while others with the same effect are not.
    /// After an error parts of the batch may be committed; asking again is safe.
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

    /// Whether a pause that has refused orders lasts, or is over; the end of a pause is said once.
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

    /// For one order that stays busy, if no other one has it.
    pub(crate) fn turn(&self, now: Instant) -> Option<Turn> {
        self.turns.next(now)
    }

    /// What became of it. It stands in PostgreSQL's queue for each row of its stock: where others have them one after the other,
    /// whoever passes over what is locked hardly ever finds all of them free.
    pub(crate) async fn outcome_in_turn(
        &self,
        turn: Turn,
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
        let mut batch = Isolation::new(ids.len(), Outcome::Unknown, ELSEWHERE);
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
                // What is committed is not to be asked for again.
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
                        // A whole table is locked: none of them can be closed now.
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
            if alone.suspect == Suspect::Slow {
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

    /// If it fails in the same way, it is nothing that a row does.
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

    /// Which failures are the orders' own.
    fn judged(
        &self,
        ids: &[OrderId],
        mut outcomes: Vec<Outcome>,
        path: ClosingPath,
    ) -> Vec<Outcome> {
        if !any_closed(&outcomes) {
            // Where nothing else works either it can be the database that is slow.
            acquit(&mut outcomes, CANCELLED);
        }
        // What the sweep finds was often parked long ago: it says nothing about the orders of today.
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

    /// Waits for locks up to the time-out; after one that has passed it takes what is free.
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

/// Until when locked rows are passed over.
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

/// A deadlock is over when it is reported, and what was prepared on a stale connection is gone with it. A lock that
/// was waited for in vain is still held, so the batch is split at once and the others do not wait for it again.
fn is_worth_repeating(error: &StoreError) -> bool {
    error.is_stale() || error.kind() == FailureKind::Contention && !error.is_lock_timeout()
}
