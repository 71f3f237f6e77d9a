//! Open orders by deadline, overdue or not: what the sweep asks, with a grace before the deadline. So it works for any
//! tables, and the index that serves the sweep serves it.

use std::time::Instant;

use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    database_time::DatabaseTime,
    effect::Effect,
    overdue::{self, OverdueKey},
    row::cell,
};
use crate::order::{MAX_ORDER_ID_BYTES, OrderId};

/// A hundred years before its deadline. What is due later than that waits for nothing that is to come: 9999-12-31 stands for
/// "never" in many tables.
const AHEAD_MS: i64 = -AHEAD_HOURS * 3_600_000;
const AHEAD_HOURS: i64 = 100 * 365 * 24;
/// So far ahead orders are counted.
const COUNTED_AHEAD_MS: i64 = 100 * AHEAD_MS;
/// More are not counted.
const MOST_COUNTED: i64 = 100_000_000;

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

impl Store {
    /// How many orders behind `after` are open; `sql` is the effect's `overdue_sql`.
    ///
    /// # Errors
    /// The statement failed, or is not as agreed.
    pub(crate) async fn open_orders(
        &self,
        effect: &Effect,
        sql: &str,
        after: &OverdueKey,
    ) -> Result<OpenOrders, StoreError> {
        let counted = self.count(effect, sql, after).await;
        counted.map_err(|error| error.in_effect(&effect.name, &effect.overdue_file, sql))
    }

    async fn count(
        &self,
        effect: &Effect,
        sql: &str,
        after: &OverdueKey,
    ) -> Result<OpenOrders, StoreError> {
        self.check_overdue_shape(effect, sql).await?;
        let (due_at, order_id) = after.parts();
        let parameters: [&(dyn ToSql + Sync); 4] =
            [&MOST_COUNTED, &COUNTED_AHEAD_MS, due_at, order_id];
        let rows = self.rows("open_orders", &counted(sql), &parameters).await?;
        let silent = || StoreError::Silent { address: self.address.to_string() };
        let row = rows.first().ok_or_else(silent)?;
        let count = |column: usize| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
        let due = |column: usize| row.get::<_, Option<DatabaseTime>>(column);
        Ok(OpenOrders {
            orders: count(0),
            overdue: count(1),
            due: due(2).zip(due(3)),
            unusable: count(4),
            far: count(5),
        })
    }

    /// At most `limit` open orders behind `after`, the first due first; `sql` is the effect's `overdue_sql`.
    ///
    /// # Errors
    /// The statement failed, or is not as agreed.
    pub(crate) async fn open_page(
        &self,
        effect: &Effect,
        sql: &str,
        after: &OverdueKey,
        limit: i64,
    ) -> Result<OpenPage, StoreError> {
        let (rows, next) = self.overdue_rows(effect, sql, after, limit, AHEAD_MS).await?;
        let clock = (DatabaseTime::from_unix_ms(self.now_ms().await?), Instant::now());
        let is_full = i64::try_from(rows.len()).is_ok_and(|rows| rows >= limit);
        let is_last = !is_full || next == *after;
        let mut page = OpenPage { orders: Vec::new(), refused: Vec::new(), next, is_last, clock };
        for row in &rows {
            match order(row) {
                Ok(order) => page.orders.push(order),
                Err(reason) => page.refused.push(reason),
            }
        }
        Ok(page)
    }
}

fn order(row: &Row) -> Result<(OrderId, DatabaseTime), String> {
    Ok((overdue::order_id(row)?, cell(row, 1)?))
}

/// White space and control characters, as [`OrderId::parse`] knows them.
const NO_PART_OF_AN_ID: &str =
    r"[\u0001-\u0020\u007f-\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]";

fn counted(sql: &str) -> String {
    let sql = sql.trim().trim_end_matches(';');
    format!(
        "SELECT count(*) FILTER (WHERE listed), count(*) FILTER (WHERE listed AND due_at <= now()),
                min(due_at) FILTER (WHERE listed), max(due_at) FILTER (WHERE listed),
                count(*) FILTER (WHERE near IS NOT FALSE AND usable IS NOT TRUE), count(*) FILTER (WHERE NOT near)
         FROM (SELECT due_at, usable, near, usable AND near AS listed
               FROM (SELECT due_at, due_at <= now() + interval '{AHEAD_HOURS} hours' AS near,
                            octet_length(order_id) BETWEEN 1 AND {MAX_ORDER_ID_BYTES}
                                AND order_id !~ '{NO_PART_OF_AN_ID}' AND due_at IS NOT NULL AS usable
                     FROM (\n{sql}\n) AS open (order_id, due_at)) AS asked) AS sorted"
    )
}
