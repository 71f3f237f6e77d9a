//! Reads orders by deadline, page by page, with `overdue_sql`, for any tables. A negative grace also gives open orders before
//! their deadline. `lock_burst` locks the burst of an effect, so that one worker at a time closes it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    clock::{DatabaseTime, to_ms},
    contract::{Contract, cell, excerpt, without_end},
    effects::Effect,
    outgoing::BEGIN_LOCKS,
    pool::{Cancellable, End, PoolKind, StatementCall, TransactionLimits, count},
};
use crate::order::{MAX_ORDER_ID_BYTES, OrderId};

/// The grace that gives all open orders: a hundred years before the deadline. An order that is due later waits for nothing real:
/// 9999-12-31 means "never" in many tables.
const AHEAD_MS: i64 = -100 * 365 * 24 * 3_600_000;
/// The grace that also gives orders due in more than a hundred years.
const COUNTED_AHEAD_MS: i64 = 100 * AHEAD_MS;
/// A worker that is stopped, or stuck in a page, loses the lock, so that other workers close the due orders.
const PASSES_ON: &str = "SET LOCAL idle_in_transaction_session_timeout = '2s'";
/// Connections that locks leave to others: one for a relay, which keeps it while it publishes, and one for short statements.
const LEFT_TO_OTHERS: usize = 2;

/// The sort key of overdue orders: deadline, then id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OverdueKey {
    due_at: DatabaseTime,
    order_id: String,
}

impl OverdueKey {
    pub(crate) const fn first() -> Self {
        Self { due_at: DatabaseTime::FIRST, order_id: String::new() }
    }

    /// The key before all orders with this deadline.
    pub(crate) const fn at(due_at: DatabaseTime) -> Self {
        Self { due_at, order_id: String::new() }
    }

    /// `None` for [`OverdueKey::first`].
    pub(crate) fn due_at(&self) -> Option<DatabaseTime> {
        (*self != Self::first()).then_some(self.due_at)
    }

    pub(crate) fn overdue_at(&self, now: DatabaseTime) -> Duration {
        self.due_at.until(now)
    }
}

/// Rows of `overdue_sql`.
#[derive(Debug)]
pub(crate) struct OverduePage {
    /// Orders with a valid id.
    pub(crate) ids: Vec<OrderId>,
    /// The deadline of each of `ids`.
    pub(crate) deadlines: Vec<DatabaseTime>,
    /// Reasons why a row is not in `ids`: its id is invalid in a message, or its deadline cannot be read.
    pub(crate) refused: Vec<String>,
    /// All rows, with the refused ones.
    pub(crate) rows: usize,
    /// The start of the next page.
    pub(crate) next: OverdueKey,
}

/// Counting a hundred million orders takes minutes; a person who rebuilds their messages waits longer anyway.
const COUNTING: TransactionLimits =
    TransactionLimits { lock: None, statement: Some(Duration::from_mins(10)) };

/// Counts of the open orders of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenOrders {
    /// Orders with a valid id, up to 100,000,000.
    pub(crate) orders: u64,
    /// The part of `orders` whose deadline has passed.
    pub(crate) overdue: u64,
    /// First and last deadline.
    pub(crate) due: Option<(DatabaseTime, DatabaseTime)>,
    /// Other rows due within a hundred years: the id is invalid in a message, or the deadline is NULL.
    pub(crate) unusable: u64,
    /// Rows that are due in more than a hundred years.
    pub(crate) far: u64,
}

impl OpenOrders {
    /// Whether there may be more rows than the `most` that were read.
    pub(crate) const fn is_more(&self, most: i64) -> bool {
        self.orders + self.unusable + self.far >= most.unsigned_abs()
    }
}

/// A page of open orders, by deadline.
pub(crate) struct OpenPage {
    /// Order and deadline.
    pub(crate) orders: Vec<(OrderId, DatabaseTime)>,
    /// Reasons why a row is not in `orders`.
    pub(crate) refused: Vec<String>,
    /// The start of the next page.
    pub(crate) next: OverdueKey,
    pub(crate) is_last: bool,
    clock: (DatabaseTime, Instant),
}

impl OpenPage {
    /// The present time by the database's clock.
    pub(crate) fn now(&self) -> DatabaseTime {
        self.clock.0.after(self.clock.1.elapsed())
    }
}

/// A transaction with the lock of a burst. Between two statements it has neither a snapshot nor an id, so it does not delay vacuum.
pub(crate) struct BurstLock<'a> {
    store: &'a Store,
    client: Cancellable,
    _permit: OwnedSemaphorePermit,
}

/// Permits for burst locks: connections of the pool that closes no orders, less [`LEFT_TO_OTHERS`].
pub(super) fn permits(connections: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(connections.saturating_sub(LEFT_TO_OTHERS)))
}

impl Store {
    /// Orders past their deadline by more than `grace`, oldest first, at most `limit`; `None` without `overdue_sql`.
    pub(crate) async fn overdue_page(
        &self,
        effect: &Effect,
        after: &OverdueKey,
        limit: i64,
        grace: Duration,
    ) -> Result<Option<OverduePage>, StoreError> {
        let Some((rows, next)) = self.page(effect, after, limit, to_ms(grace)).await? else {
            return Ok(None);
        };
        let (ids, deadlines, refused) = (Vec::new(), Vec::new(), Vec::new());
        let mut page = OverduePage { ids, deadlines, refused, rows: rows.len(), next };
        for row in &rows {
            match order_id(row).and_then(|id| Ok((id, cell(row, 1)?))) {
                Ok((id, deadline)) => {
                    page.ids.push(id);
                    page.deadlines.push(deadline);
                }
                Err(reason) => page.refused.push(reason),
            }
        }
        Ok(Some(page))
    }

    /// At most `limit` open orders after `after`, by deadline; empty without `overdue_sql`.
    pub(crate) async fn open_page(
        &self,
        effect: &Effect,
        after: &OverdueKey,
        limit: i64,
    ) -> Result<OpenPage, StoreError> {
        let page = self.page(effect, after, limit, AHEAD_MS).await?;
        let (rows, next) = page.unwrap_or_else(|| (Vec::new(), after.clone()));
        let clock = (self.now().await?, Instant::now());
        let is_full = i64::try_from(rows.len()).is_ok_and(|rows| rows >= limit);
        let is_last = !is_full || next == *after;
        let mut page = OpenPage { orders: Vec::new(), refused: Vec::new(), next, is_last, clock };
        for row in &rows {
            match order_id(row).and_then(|id| Ok((id, cell(row, 1)?))) {
                Ok(order) => page.orders.push(order),
                Err(reason) => page.refused.push(reason),
            }
        }
        Ok(page)
    }

    /// Rows of `overdue_sql`, and the start of the next page. A negative grace gives orders before their deadline.
    pub(super) async fn page(
        &self,
        effect: &Effect,
        after: &OverdueKey,
        limit: i64,
        grace_ms: i64,
    ) -> Result<Option<(Vec<Row>, OverdueKey)>, StoreError> {
        let statements = self.statements(effect).await?;
        let Some(sql) = &statements.overdue else { return Ok(None) };
        let question = StatementCall {
            name: "overdue_ids",
            sql,
            parameters: &[&limit, &grace_ms, &after.due_at, &after.order_id],
            contract: Contract::Overdue(effect),
        };
        let rows = self.execute(PoolKind::Anything, question).await?;
        // The last row that has a valid key. A page whose end is its start would repeat without end.
        let Some(next) = rows.iter().rev().find_map(key) else {
            return Ok(Some((rows, after.clone())));
        };
        if next == *after || next.due_at < after.due_at {
            let wrong = "it gives orders that are not after $3 and $4".to_owned();
            return Err(question.contract.misfit(wrong));
        }
        Ok(Some((rows, next)))
    }

    /// Runs the statement `around`, which contains `overdue_sql` as `{sql}` and begins with its parameters; `None` without it.
    pub(super) async fn around_overdue(
        &self,
        name: &'static str,
        around: &str,
        effect: &Effect,
        parameters: &[&(dyn ToSql + Sync)],
        limits: TransactionLimits,
    ) -> Result<Option<Vec<Row>>, StoreError> {
        let statements = self.statements(effect).await?;
        let Some(sql) = &statements.overdue else { return Ok(None) };
        let contract = Contract::Overdue(effect);
        self.prepare(StatementCall { contract, ..StatementCall::new("overdue_ids", sql, &[]) })
            .await?;
        let around = around.replace("{sql}", without_end(sql));
        let question = StatementCall::new(name, &around, parameters);
        let rows = self.in_transaction(PoolKind::Anything, limits, question, End::Rollback).await;
        rows.map(Some).map_err(|error| contract.failure(error, sql))
    }

    /// Counts open orders; `None` without `overdue_sql`.
    pub(crate) async fn open_orders(
        &self,
        effect: &Effect,
        most: i64,
    ) -> Result<Option<OpenOrders>, StoreError> {
        const SQL: &str = include_str!("../../sql/open_orders.sql");
        let bytes = i64::try_from(MAX_ORDER_ID_BYTES).unwrap_or(i64::MAX);
        let first = &DatabaseTime::FIRST;
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&most, &COUNTED_AHEAD_MS, first, &"", &AHEAD_MS, &bytes];
        let rows = self.around_overdue("open_orders", SQL, effect, &parameters, COUNTING).await?;
        Ok(rows.iter().flatten().next().map(|row| OpenOrders {
            orders: count(row, "orders"),
            overdue: count(row, "overdue"),
            due: row.get::<_, Option<_>>("first_due").zip(row.get("last_due")),
            unusable: count(row, "unusable"),
            far: count(row, "far"),
        }))
    }

    /// Tries to lock the burst of an effect, without waiting. `None` if another worker has the lock, or if bursts of other effects
    /// leave no connection.
    pub(crate) async fn lock_burst(
        &self,
        effect: &str,
    ) -> Result<Option<BurstLock<'_>>, StoreError> {
        const SQL: &str = include_str!("../../sql/burst_lock.sql");
        let Ok(permit) = Arc::clone(&self.burst_locks).try_acquire_owned() else {
            return Ok(None);
        };
        let locking = async {
            let client = self.cancellable(PoolKind::Anything).await?;
            let lock =
                self.named("burst_lock", client.prepare_cached(&self.in_own_schema(SQL)).await)?;
            let begin = format!("{BEGIN_LOCKS}; {PASSES_ON}");
            self.named("burst_lock", client.batch_execute(&begin).await)?;
            let row = self.named("burst_lock", client.query_one(&lock, &[&effect]).await)?;
            Ok((client, row))
        };
        let (client, row) = self.with_watchdog(Box::pin(locking)).await?;
        let lock = BurstLock { store: self, client, _permit: permit };
        if row.get("is_taken") {
            return Ok(Some(lock));
        }
        lock.release().await?;
        Ok(None)
    }
}

impl BurstLock<'_> {
    /// Keeps the lock: PostgreSQL ends a transaction that stays idle. An error means that connection and lock are lost.
    pub(crate) async fn keep(&self) -> Result<(), StoreError> {
        self.run("SELECT").await
    }

    /// Releases the lock for other bursts.
    pub(crate) async fn release(self) -> Result<(), StoreError> {
        self.run("COMMIT").await?;
        self.client.done();
        Ok(())
    }

    async fn run(&self, sql: &str) -> Result<(), StoreError> {
        let Self { store, client, .. } = self;
        let running = async { store.named("burst_lock", client.batch_execute(sql).await) };
        store.with_watchdog(Box::pin(running)).await
    }
}

/// The order of a row, or the reason why its id is invalid in a message.
fn order_id(row: &Row) -> Result<OrderId, String> {
    let id: &str = cell(row, 0)?;
    OrderId::parse(id).map_err(|error| format!("{error}: `{}`", excerpt(id)))
}

fn key(row: &Row) -> Option<OverdueKey> {
    let order_id = cell::<&str>(row, 0).ok()?.to_owned();
    Some(OverdueKey { due_at: cell(row, 1).ok()?, order_id })
}
