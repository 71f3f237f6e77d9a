//! Trials of an effect, in transactions that are rolled back: the outcome of each order, the obstacle that keeps overdue orders
//! from being closed, and the session that holds a lock.

use std::time::Duration;

use tokio_postgres::{Row, error::SqlState, types::ToSql};

use super::{
    APPLICATION, FailureKind, Store, StoreError,
    contract::{NO_TRACES, taken},
    effects::Effect,
    orders::{self, ClosingPath, Standing, Waiting},
    overdue::OverdueKey,
    pool::{End, PoolKind, TransactionLimits},
};
use crate::{
    condition::{
        ON_ITS_WAY,
        obstacle::{Attempt, Holder, Kind, Lock, Obstacle},
    },
    decisions::bisection::{BatchBisector, Failure, FailureScope},
    effect::Description,
    order::{OrderId, Outcome},
    text::error_chain,
    wire::Traces,
};

/// An order is [`Outcome::Busy`] if its lock is not free within this time. A slow effect must not keep the locks of the trial until
/// the session's own limit.
const TRIAL_LOCK_TIMEOUT: Duration = Duration::from_millis(200);
/// Other parts that are tried after three orders were too slow alone: the orders in these parts may be fast.
const ELSEWHERE: usize = 2;
/// The number of oldest overdue orders that are tried.
const OLDEST: i64 = 2;
/// The first order that came due within each of these times is tried as well, because the oldest orders can be exceptions.
const NEWER: [Duration; 3] =
    [Duration::from_hours(24), Duration::from_hours(1), Duration::from_mins(1)];

const BLOCKER: &str = include_str!("../../sql/blocker.sql");
/// Limits of an attempt that waits for a lock, so that the holder of the lock can be seen; that takes a hundredth of the limit. If
/// the attempt gets the lock and its client is lost, the limits end the transaction.
const BEGIN_WAITING: &str = "BEGIN; SET LOCAL lock_timeout = 1000; SET LOCAL statement_timeout = 2000; \
                             SET LOCAL idle_in_transaction_session_timeout = 2000";
/// Pause between two queries for the holder.
const BLOCKER_EVERY: Duration = Duration::from_millis(10);

impl Store {
    /// Runs the effect on orders in a transaction that is rolled back, so that it works for any tables. Returns the outcome of each
    /// order, in the order of `ids`. [`Outcome::Closed`] is an overdue order.
    ///
    /// If the effect succeeds without orders, a failure belongs to an order, whatever its SQLSTATE: a trigger may raise any.
    ///
    /// Only sequence numbers are consumed: PostgreSQL never rolls them back. For some milliseconds the trial locks the rows that
    /// the effect locks.
    pub(crate) async fn rehearse(
        &self,
        effect: &Effect,
        ids: &[OrderId],
    ) -> Result<Vec<Standing>, StoreError> {
        let mut trial = BatchBisector::new(ids.len(), Outcome::Busy.into(), ELSEWHERE);
        let mut limit = self.timing.trial;
        let mut works_without_orders = false;
        while let Some(part) = trial.next_part() {
            let error = match self.tried(effect, &ids[part.clone()], limit).await {
                Ok(rows) => {
                    let answer = orders::standings(effect, &rows, &ids[part.clone()]);
                    trial.answered(part, answer, true);
                    continue;
                }
                Err(error) if error.is_answer() => error,
                Err(error) => return Err(error),
            };
            if !works_without_orders {
                match self.rehearse_without_orders(effect).await {
                    // Another session has locked a whole table.
                    Err(whole) if whole.kind() == FailureKind::Contention => break,
                    whole => whole?,
                }
                works_without_orders = true;
            }
            let Failure { suspect, cause, reason } = error.alone();
            if suspect == FailureScope::Slow {
                limit = self.timing.trial / 3;
            }
            let alone = match suspect {
                FailureScope::Lock => Outcome::Busy,
                _ => Outcome::Failed { cause, reason },
            };
            if !trial.failed(part, suspect, alone.into()) {
                return Err(error);
            }
        }
        Ok(trial.into_outcomes())
    }

    /// Runs the effect without any order: a failure then belongs to no order.
    pub(super) async fn rehearse_without_orders(&self, effect: &Effect) -> Result<(), StoreError> {
        self.tried(effect, &[], self.timing.trial).await.map(drop)
    }

    async fn tried(
        &self,
        effect: &Effect,
        ids: &[OrderId],
        limit: Duration,
    ) -> Result<Vec<Row>, StoreError> {
        let limits = TransactionLimits { lock: Some(TRIAL_LOCK_TIMEOUT), statement: Some(limit) };
        let traces = Traces::default();
        // Preparing a statement needs a lock on the tables, too, and trials run when something is locked.
        let attempt = async || {
            let batch = (ids, &traces, ClosingPath::Message);
            self.transact(effect, batch, Waiting::Waits, None, (limits, End::Rollback)).await
        };
        match attempt().await {
            // Usually the statement was prepared before the tables were changed.
            Err(error) if error.is_stale() => attempt().await,
            rows => rows,
        }
    }

    /// Tries old and new overdue orders as this user. Returns the obstacle of the newest one that cannot be closed. If no order is
    /// overdue, the effect runs without orders, which shows wrong SQL, missing rights and locked tables.
    pub(crate) async fn obstacle(&self, effect: &Effect) -> Result<Option<Obstacle>, StoreError> {
        Ok(self.attempt(effect).await?.obstacle)
    }

    /// Returns the obstacle with the number of orders that were tried.
    pub(crate) async fn attempt(&self, effect: &Effect) -> Result<Attempt, StoreError> {
        let tried = match self.of_some(effect).await {
            // The statement was prepared before the tables were changed.
            Err(error) if error.is_stale() => self.of_some(effect).await,
            tried => tried,
        };
        let error = match tried {
            Err(error) if error.is_answer() || error.is_misfit() => error,
            tried => return tried,
        };
        let reason = error_chain(&error);
        let obstacle = if error.kind() == FailureKind::Contention {
            Obstacle::lock(None, &self.lock_of(effect, &[]).await)
        } else if matches!(error, StoreError::Unaccepted { .. }) {
            Obstacle::unaccepted(&effect.name, &reason)
        } else if error.is_permission() {
            Obstacle::right(self.config.get_user().unwrap_or_default(), &reason)
        } else {
            Obstacle::of_all(&effect.name, &reason)
        };
        Ok(Attempt { orders: 0, obstacle: Some(obstacle) })
    }

    async fn of_some(&self, effect: &Effect) -> Result<Attempt, StoreError> {
        self.refuse_backlog(effect).await?;
        self.rehearse_without_orders(effect).await?;
        let ids = self.old_and_new(effect).await?;
        let obstacle = self.obstacle_of(effect, &ids).await?;
        Ok(Attempt { orders: ids.len(), obstacle })
    }

    async fn obstacle_of(
        &self,
        effect: &Effect,
        ids: &[OrderId],
    ) -> Result<Option<Obstacle>, StoreError> {
        let standings = self.rehearse(effect, ids).await?;
        for (id, standing) in ids.iter().zip(standings).rev() {
            let order = id.as_str();
            let of_order = |reason: &str| Obstacle::of_order(&effect.name, order, reason);
            match standing.outcome {
                Outcome::Closed { .. } | Outcome::AlreadyFinal => {}
                Outcome::NotDue { remaining } if !remaining.is_zero() => {}
                Outcome::NotDue { .. } => {
                    let reason = "it is overdue, and the effect says not_due";
                    return Ok(Some(of_order(reason)));
                }
                Outcome::Unknown => {
                    let reason = "overdue_sql has it, and the effect gives no row for it";
                    return Ok(Some(of_order(reason)));
                }
                Outcome::Failed { cause, reason } => {
                    let mut found = of_order(&reason);
                    if cause == SqlState::INSUFFICIENT_PRIVILEGE.code() {
                        found.kind = Kind::Right;
                    }
                    return Ok(Some(found));
                }
                Outcome::Postponed { reason } => {
                    return Ok(Some(of_order(&reason)));
                }
                Outcome::Busy => {
                    let lock = self.lock_of(effect, std::slice::from_ref(id)).await;
                    // In a burst a worker has locked the order, and will commit.
                    if lock.holder.as_ref().is_none_or(|holder| !is_working(holder)) {
                        return Ok(Some(Obstacle::lock(Some(order), &lock)));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Old and new overdue orders by deadline; each is read from an index, as the sweep reads orders.
    async fn old_and_new(&self, effect: &Effect) -> Result<Vec<OrderId>, StoreError> {
        let now = self.now().await?;
        let mut new = NEWER.into_iter().map(|age| OverdueKey::at(now.before(age)));
        let (mut ids, mut after, mut limit) = (Vec::new(), OverdueKey::first(), OLDEST);
        while let Some(page) = self.overdue_page(effect, &after, limit, ON_ITS_WAY).await? {
            ids.extend(page.ids);
            let Some(key) = new.next().filter(|_| page.rows > 0) else { break };
            (after, limit) = (page.next.max(key), 1);
        }
        Ok(ids)
    }

    /// The lock that closing these orders waits for; empty if none was seen, e.g. because it is free again.
    pub(crate) async fn lock_of(&self, effect: &Effect, ids: &[OrderId]) -> Lock {
        self.with_watchdog(Box::pin(self.seen(effect, ids))).await.unwrap_or_default()
    }

    /// Waits for the lock in an attempt. Returns the lock when PostgreSQL shows it, and cancels the attempt.
    async fn seen(&self, effect: &Effect, ids: &[OrderId]) -> Result<Lock, StoreError> {
        let client = self.cancellable(PoolKind::Anything).await?;
        let pid = client.query_one("SELECT pg_backend_pid()", &[]).await;
        let pid: i32 = self.named("blocker", pid)?.get(0);
        let texts: Vec<&str> = ids.iter().map(OrderId::as_str).collect();
        let attempt = async {
            client.batch_execute(BEGIN_WAITING).await?;
            // While a table is locked as a whole, no statements can be made for it: the attempt waits for the table instead.
            if let Some(Description { table, releases, .. }) = effect.description() {
                for table in releases.iter().map(|it| &it.table).chain([table]) {
                    client.prepare(&format!("SELECT FROM {}", table.sql)).await?;
                }
            }
            let Ok(statements) = self.statements(effect).await else { return Ok(()) };
            let path = ClosingPath::Message.as_str();
            let parameters: [&(dyn ToSql + Sync); 3] = [&texts, &path, &NO_TRACES];
            for sql in statements.lock.iter().chain([&statements.close]) {
                let statement = client.prepare(&waiting(sql)).await?;
                client.query(&statement, taken(&statement, &parameters)).await?;
            }
            Ok::<_, tokio_postgres::Error>(())
        };
        let looking = async {
            loop {
                if let Some(row) = self.rows("blocker", BLOCKER, &[&pid]).await?.first() {
                    return Ok(lock(row));
                }
                tokio::time::sleep(BLOCKER_EVERY).await;
            }
        };
        tokio::select! {
            biased;
            _ = attempt => Ok(Lock::default()),
            seen = looking => seen,
        }
    }
}

/// Whether the holder is a worker whose transaction has just begun.
fn is_working(holder: &Holder) -> bool {
    let is_new = holder.doing.as_ref().is_some_and(|(_, age)| *age < ON_ITS_WAY);
    holder.application == APPLICATION && is_new
}

/// The statement without `SKIP LOCKED` and `NOWAIT`, so that it waits.
fn waiting(sql: &str) -> String {
    [" SKIP LOCKED", " skip locked", " NOWAIT", " nowait"]
        .into_iter()
        .fold(sql.to_owned(), |sql, word| sql.replace(word, ""))
}

fn lock(row: &Row) -> Lock {
    let (pid, state, age_ms): (i32, Option<String>, Option<i64>) =
        (row.get("pid"), row.get("state"), row.get("age_ms"));
    let doing = state.zip(age_ms);
    let doing = doing.map(|(state, ms)| (state, Duration::from_millis(ms.max(0).unsigned_abs())));
    let holder =
        Holder { pid, user: row.get("usename"), application: row.get("application_name"), doing };
    // A prepared transaction has no session.
    let holder = (pid != 0).then_some(holder);
    Lock { table: row.get("relation"), is_row: row.get("is_row"), holder }
}
