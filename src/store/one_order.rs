//! Rows of one order in the tables of `overdue`.

use jiff::Timestamp;
use tokio_postgres::Row;

use super::{Store, StoreError, clock::DatabaseTime};
use crate::{
    order::OrderId,
    why::{Closure, Event, Found, Notice},
};

/// Limit of the closures that are shown.
const MOST_CLOSURES: i64 = 20;
/// Limit of rows that are read from a table without an index by order: a tenth of a second.
const LOOKED_AT: i64 = 100_000;

impl Store {
    /// Closures of an order, newest first.
    pub(crate) async fn closures_of(&self, id: &OrderId) -> Result<Found<Closure>, StoreError> {
        const SQL: &str = include_str!("../../sql/order_closures.sql");
        let rows = self.rows("order_closures", SQL, &[&id.spellings(), &MOST_CLOSURES]).await?;
        let most = usize::try_from(MOST_CLOSURES).unwrap_or(usize::MAX);
        let looked_at = (rows.len() >= most).then_some(MOST_CLOSURES.unsigned_abs());
        Ok(Found { rows: rows.iter().map(closure).collect(), looked_at })
    }

    /// Notices of an order that are not published yet.
    pub(crate) async fn notices_of(&self, id: &OrderId) -> Result<Found<Notice>, StoreError> {
        const SQL: &str = include_str!("../../sql/order_notices.sql");
        let rows = self.rows("order_notices", SQL, &[&id.spellings(), &LOOKED_AT]).await?;
        Ok(found(&rows, "is_notice", |row| Notice {
            timeout: row.get("timeout"),
            due_at: time(row, "due_at"),
            since: time(row, "since"),
            refused: row.get("reason"),
        }))
    }

    /// Events of an order that are not published yet.
    pub(crate) async fn events_of(&self, id: &OrderId) -> Result<Found<Event>, StoreError> {
        const SQL: &str = include_str!("../../sql/order_events.sql");
        let rows = self.rows("order_events", SQL, &[&id.spellings(), &LOOKED_AT]).await?;
        Ok(found(&rows, "is_event", |row| Event {
            event: row.get("event"),
            since: time(row, "since"),
            refused: row.get("reason"),
        }))
    }
}

fn found<T>(rows: &[Row], is_one: &str, one: impl Fn(&Row) -> T) -> Found<T> {
    let is_cut = rows.first().is_some_and(|row| row.get("is_cut"));
    let ones = rows.iter().filter(|row| row.get(is_one));
    Found { rows: ones.map(one).collect(), looked_at: is_cut.then_some(LOOKED_AT.unsigned_abs()) }
}

fn closure(row: &Row) -> Closure {
    let [due_at, closed_at] =
        ["due_at", "closed_at"].map(|column| row.get::<_, DatabaseTime>(column));
    let late = due_at.until(closed_at);
    let late_ms = u64::try_from(late.as_millis()).ok();
    Closure {
        effect: row.get("effect"),
        path: row.get("path"),
        outcome: row.get("outcome"),
        due_at: due_at.timestamp(),
        closed_at: closed_at.timestamp(),
        late_ms: late_ms.filter(|_| due_at.timestamp().is_some()),
    }
}

/// `None` for `infinity` and for NULL.
fn time(row: &Row, column: &str) -> Option<Timestamp> {
    row.get::<_, Option<DatabaseTime>>(column).and_then(DatabaseTime::timestamp)
}
