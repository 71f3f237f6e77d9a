//! Who probably holds the rows that are busy.

use std::time::Duration;

use super::{Store, StoreError, row};

const SQL: &str = include_str!("../../sql/blocker.sql");

/// An open transaction of somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Blocker {
    pub(crate) pid: i32,
    pub(crate) application_name: String,
    /// As `pg_stat_activity.state` has it, e.g. `idle in transaction`.
    pub(crate) state: String,
    pub(crate) age: Duration,
}

impl Store {
    /// The transaction that has held locks on rows for longest; none where this user sees none.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn blocker(&self) -> Result<Option<Blocker>, StoreError> {
        let rows = self.rows("blocker", SQL, &[]).await?;
        Ok(rows.first().and_then(|row| {
            let age_ms: i64 = row::cell(row, 3).ok()?;
            Some(Blocker {
                pid: row::cell(row, 0).ok()?,
                application_name: row::cell::<&str>(row, 1).ok()?.to_owned(),
                state: row::cell::<&str>(row, 2).ok()?.to_owned(),
                age: Duration::from_millis(u64::try_from(age_ms).unwrap_or(0)),
            })
        }))
    }
}
