//! Notices that are over and were never confirmed.

use std::time::Duration;

use crate::{
    order::OrderId,
    store::{Store, StoreError},
};

const UNCOVERED: &str = include_str!("../../../sql/schedule_uncovered.sql");

/// An order whose notice was never confirmed.
#[derive(Clone, Debug)]
pub(crate) struct Uncovered {
    /// The row of the notice.
    pub(crate) id: i64,
    /// None where no message could carry it; the one that publishes sets it aside.
    pub(crate) order: Option<OrderId>,
}

impl Store {
    /// Notices that have been over for `grace`, by their rows.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn uncovered(
        &self,
        timeouts: &[&str],
        grace: Duration,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Uncovered>, StoreError> {
        let grace_ms = i64::try_from(grace.as_millis()).unwrap_or(i64::MAX);
        let parameters: [&(dyn tokio_postgres::types::ToSql + Sync); 4] =
            [&timeouts, &grace_ms, &after, &limit];
        let rows = self.rows("schedule_uncovered", UNCOVERED, &parameters).await?;
        let read = rows.iter().map(|row| Uncovered {
            id: row.get("id"),
            // In a database without an encoding it can be bytes that are not UTF-8.
            order: row.try_get("order_id").ok().and_then(|id| OrderId::parse(id).ok()),
        });
        Ok(read.collect())
    }
}
