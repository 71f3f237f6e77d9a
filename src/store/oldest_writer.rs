//! Whether one transaction goes on and on.

use super::{Store, row};

const SQL: &str = include_str!("../../sql/oldest_writer.sql");

impl Store {
    /// The id of the oldest transaction that has written or locked a row and has not ended, whoever's it is, and of the
    /// next one where there is none: it grows when that transaction ends. None where the database does not say.
    pub(crate) async fn oldest_writer(&self) -> Option<i64> {
        let rows = self.rows("oldest_writer", SQL, &[]).await.ok()?;
        row::cell(rows.first()?, 0).ok()
    }
}
