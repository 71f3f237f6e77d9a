//! What cannot be published, by reason.

use jiff::Timestamp;

use super::{Store, StoreError, clock::DatabaseTime, pool::count};

/// Rows of each table that are looked at: a tenth of a second.
const LOOKED_AT: i64 = 100_000;

/// Events or notices that are refused for the same reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RefusedReason {
    /// Otherwise notices.
    pub(crate) is_event: bool,
    /// The event, or the timeout; none where the row has none.
    pub(crate) name: Option<String>,
    pub(crate) reason: String,
    /// Whether they are tried again and again.
    pub(crate) is_tried: bool,
    pub(crate) number: u64,
    /// When the first of them was refused.
    pub(crate) since: Option<Timestamp>,
}

impl Store {
    /// The most frequent reasons among the last 100,000 rows of each table, most frequent first.
    pub(crate) async fn refused_by_reason(
        &self,
        most: i64,
    ) -> Result<Vec<RefusedReason>, StoreError> {
        const SQL: &str = include_str!("../../sql/refused_by_reason.sql");
        let rows = self.rows("refused_by_reason", SQL, &[&LOOKED_AT, &most]).await?;
        let reason = |row: &tokio_postgres::Row| RefusedReason {
            is_event: row.get("is_event"),
            name: row.get("name"),
            reason: row.get("reason"),
            is_tried: row.get("is_tried"),
            number: count(row, "number"),
            since: row.get::<_, DatabaseTime>("first").timestamp(),
        };
        Ok(rows.iter().map(reason).collect())
    }
}
