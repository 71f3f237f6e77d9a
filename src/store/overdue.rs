//! Orders by deadline, page by page, as the index that serves the sweep has them: overdue ones, and with a grace before the deadline
//! those that are open. So it works for any tables. And the lock of a burst: one worker at a time closes the burst of an effect.

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
    pool::{Cancellable, End, For, Question, TransactionLimits, count},
};
use crate::order::{MAX_ORDER_ID_BYTES, OrderId};

/// The grace that gives all open orders: a hundred years before the deadline. What is due later than that waits for nothing that is to
/// come: 9999-12-31 stands for "never" in many tables.
const AHEAD_MS: i64 = -100 * 365 * 24 * 3_600_000;
/// The grace that gives these, too.
const COUNTED_AHEAD_MS: i64 = 100 * AHEAD_MS;
/// A worker that is stopped, or stuck in a page, leaves what is due to others.
const PASSES_ON: &str = "SET LOCAL idle_in_transaction_session_timeout = '2s'";
/// Connections that locks leave to others: one for a relay, which keeps it while it publishes, and one for whatever is short.
const LEFT_TO_OTHERS: usize = 2;

/// The place of an order among those that are overdue: by deadline, then by id.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct OverdueKey {
    due_at: DatabaseTime,
    order_id: String,
}

impl OverdueKey {
    /// Before all orders.
    pub(crate) const fn first() -> Self {
        Self { due_at: DatabaseTime::FIRST, order_id: String::new() }
    }

    /// Before all orders that are due then.
    pub(crate) const fn at(due_at: DatabaseTime) -> Self {
        Self { due_at, order_id: String::new() }
    }

    /// The deadline of an order with this key.
    pub(crate) fn due_at(&self) -> Option<DatabaseTime> {
        (*self != Self::first()).then_some(self.due_at)
    }

    /// How long an order with this key has been overdue at `now`.
    pub(crate) fn overdue_at(&self, now: DatabaseTime) -> Duration {
        self.due_at.until(now)
    }
}

/// What `overdue_sql` found.
#[derive(Debug)]
pub(crate) struct OverduePage {
    /// Orders that can be asked for.
    pub(crate) ids: Vec<OrderId>,
    /// The deadline of each of `ids`.
    pub(crate) deadlines: Vec<DatabaseTime>,
    /// Rows whose id is none that a message could carry, and why.
    pub(crate) refused: Vec<String>,
    /// Rows in all.
    pub(crate) rows: usize,
    /// Where the next page begins.
    pub(crate) next: OverdueKey,
}

/// A hundred million orders take minutes to count, and whoever rebuilds them waits longer.
const COUNTING: TransactionLimits =
    TransactionLimits { lock: None, statement: Some(Duration::from_mins(10)) };

/// The open orders of an effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct OpenOrders {
    /// Those that are read as pages, up to 100,000,000.
    pub(crate) orders: u64,
    /// Those of them whose deadline has passed.
    pub(crate) overdue: u64,
    /// Their first and their last deadline.
    pub(crate) due: Option<(DatabaseTime, DatabaseTime)>,
    /// Rows up to then whose id is none that a message could carry.
    pub(crate) unusable: u64,
    /// Rows that are due in more than a hundred years.
    pub(crate) far: u64,
}

impl OpenOrders {
    /// Whether there can be others behind the `most` rows that were read.
    pub(crate) const fn is_more(&self, most: i64) -> bool {
        self.orders + self.unusable + self.far >= most.unsigned_abs()
    }
}

/// Some of them, by deadline.
pub(crate) struct OpenPage {
    /// Order and deadline.
    pub(crate) orders: Vec<(OrderId, DatabaseTime)>,
    /// Rows whose id is none that a message could carry, and why.
    pub(crate) refused: Vec<String>,
    /// Where the next page begins.
    pub(crate) next: OverdueKey,
    /// Whether there is none.
    pub(crate) is_last: bool,
    clock: (DatabaseTime, Instant),
}

impl OpenPage {
    /// The present by the database's clock.
    pub(crate) fn now(&self) -> DatabaseTime {
        self.clock.0.after(self.clock.1.elapsed())
    }
}

/// A transaction that holds the lock. Between two statements it has neither a snapshot nor an id, so it holds up no vacuum.
pub(crate) struct BurstLock<'a> {
    store: &'a Store,
    client: Cancellable,
    _permit: OwnedSemaphorePermit,
}

/// As many locks as the pool that does not close has connections to spare.
pub(super) fn permits(connections: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(connections.saturating_sub(LEFT_TO_OTHERS)))
}

impl Store {
    /// Orders past their deadline by more than `grace`, oldest first, at most `limit`; none without `overdue_sql`.
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

    /// At most `limit` open orders behind `after`, the first due first; none without `overdue_sql`.
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

    /// Rows of `overdue_sql`, and where the next page begins; a grace below zero is one before the deadline.
    pub(super) async fn page(
        &self,
        effect: &Effect,
        after: &OverdueKey,
        limit: i64,
        grace_ms: i64,
    ) -> Result<Option<(Vec<Row>, OverdueKey)>, StoreError> {
        let statements = self.statements(effect).await?;
        let Some(sql) = &statements.overdue else { return Ok(None) };
        let question = Question {
            name: "overdue_ids",
            sql,
            parameters: &[&limit, &grace_ms, &after.due_at, &after.order_id],
            contract: Contract::Overdue(effect),
        };
        let rows = self.ask(For::Anything, question).await?;
        // The last row that can be a key. A page that ends where it began would come again for ever.
        let Some(next) = rows.iter().rev().find_map(key) else {
            return Ok(Some((rows, after.clone())));
        };
        if next == *after || next.due_at < after.due_at {
            let wrong = "it gives orders that are not after $3 and $4".to_owned();
            return Err(question.contract.misfit(wrong));
        }
        Ok(Some((rows, next)))
    }

    /// Rows of a statement around `overdue_sql`, with the same parameters first; `None` without that.
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
        self.prepare(Question { contract, ..Question::new("overdue_ids", sql, &[]) }).await?;
        let around = around.replace("{sql}", without_end(sql));
        let question = Question::new(name, &around, parameters);
        let rows = self.in_transaction(For::Anything, limits, question, End::Rollback).await;
        rows.map(Some).map_err(|error| contract.failure(error, sql))
    }

    /// How many orders are open; `None` without `overdue_sql`.
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

    /// Asks for the lock of an effect's burst, without waiting for it. `None` if another burst has it: one of another worker, or of
    /// another effect of this worker that leaves no connection.
    pub(crate) async fn lock_burst(
        &self,
        effect: &str,
    ) -> Result<Option<BurstLock<'_>>, StoreError> {
        const SQL: &str = include_str!("../../sql/burst_lock.sql");
        let Ok(permit) = Arc::clone(&self.burst_locks).try_acquire_owned() else {
            return Ok(None);
        };
        let locking = async {
            let client = self.cancellable(For::Anything).await?;
            let lock =
                self.named("burst_lock", client.prepare_cached(&self.in_own_schema(SQL)).await)?;
            let begin = format!("{BEGIN_LOCKS}; {PASSES_ON}");
            self.named("burst_lock", client.batch_execute(&begin).await)?;
            let row = self.named("burst_lock", client.query_one(&lock, &[&effect]).await)?;
            Ok((client, row))
        };
        let (client, row) = self.attended(Box::pin(locking)).await?;
        let lock = BurstLock { store: self, client, _permit: permit };
        if row.get("is_taken") {
            return Ok(Some(lock));
        }
        lock.release().await?;
        Ok(None)
    }
}

impl BurstLock<'_> {
    /// PostgreSQL ends a transaction that is idle for long. If it fails, the connection is gone, and with it the lock.
    pub(crate) async fn keep(&self) -> Result<(), StoreError> {
        self.run("SELECT").await
    }

    /// Another burst may take it.
    pub(crate) async fn release(self) -> Result<(), StoreError> {
        self.run("COMMIT").await?;
        self.client.done();
        Ok(())
    }

    async fn run(&self, sql: &str) -> Result<(), StoreError> {
        let Self { store, client, .. } = self;
        let running = async { store.named("burst_lock", client.batch_execute(sql).await) };
        store.attended(Box::pin(running)).await
    }
}

/// The order of a row; why it is none that a message could carry.
fn order_id(row: &Row) -> Result<OrderId, String> {
    let id: &str = cell(row, 0)?;
    OrderId::parse(id).map_err(|error| format!("{error}: `{}`", excerpt(id)))
}

fn key(row: &Row) -> Option<OverdueKey> {
    let order_id = cell::<&str>(row, 0).ok()?.to_owned();
    Some(OverdueKey { due_at: cell(row, 1).ok()?, order_id })
}
