//! What a worker asks now and then to show it: the notices that wait to be published.

use std::time::Duration;

use tokio_postgres::Row;

use crate::store::{Store, StoreError, schedule::Notices};

const WATCH: &str = include_str!("../../../sql/watch_schedule.sql");
/// Where counting ends: what is counted is read.
const MOST: i64 = 100_000;

/// The notices that wait at this moment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScheduleState {
    /// Up to 100,000.
    pub(crate) notices: u64,
    /// The age of the oldest one.
    pub(crate) oldest: Duration,
    /// Set aside. Up to 100,000.
    pub(crate) refused: u64,
}

impl Store {
    /// What waits, and what was set aside; `None` without the tables, or the rights on them.
    ///
    /// # Errors
    /// The database does not answer.
    pub(crate) async fn schedule_state(&self) -> Result<Option<ScheduleState>, StoreError> {
        if self.schedule_lacks(Notices::Counted).await?.is_some() {
            return Ok(None);
        }
        let rows = self.rows("watch_schedule", WATCH, &[&MOST]).await?;
        let count =
            |row: &Row, column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or_default();
        Ok(rows.first().map(|row| ScheduleState {
            notices: count(row, "notices"),
            oldest: Duration::from_millis(count(row, "oldest_ms")),
            refused: count(row, "refused"),
        }))
    }
}
