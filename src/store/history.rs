//! Deleting what is older than is kept, a few blocks at a time.

use std::time::Duration;

use tokio_postgres::Row;

use super::{
    Store, StoreError,
    pool::{End, For, Limits, Question},
};

/// A statement that waits for somebody, or takes long, gives up: nobody waits for it.
const LIMITS: Limits =
    Limits { lock: Some(Duration::from_millis(100)), statement: Some(Duration::from_secs(2)) };
/// Blocks of 8 KiB that are read at once: some thousand rows.
pub(crate) const BLOCKS: u64 = 32;

/// A table that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryTable {
    /// `closures`, by `closed_at`.
    Closures,
    /// `dropped_messages`, by `dropped_at`.
    DroppedMessages,
}

impl HistoryTable {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Closures => "closures",
            Self::DroppedMessages => "dropped_messages",
        }
    }

    const fn sql(self) -> &'static str {
        match self {
            Self::Closures => include_str!("../../sql/history_closures.sql"),
            Self::DroppedMessages => include_str!("../../sql/history_dropped.sql"),
        }
    }
}

/// A part of a table was looked through.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LookedThrough {
    /// Rows that are gone.
    pub(crate) deleted: u64,
    /// Blocks of the whole table.
    pub(crate) blocks: u64,
}

impl Store {
    /// Deletes the rows of [`BLOCKS`] blocks, from block `from` on, that are older than `keep`; `None` while another session
    /// does so in this table.
    ///
    /// # Errors
    /// The database did not do it: also where somebody holds a row for longer than 100 ms, or where it takes 2 s.
    pub(crate) async fn delete_old(
        &self,
        table: HistoryTable,
        from: u64,
        keep: Duration,
    ) -> Result<Option<LookedThrough>, StoreError> {
        let number = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
        let (from, blocks) = (number(from), number(BLOCKS));
        let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
        let question = Question {
            name: "history",
            sql: table.sql(),
            parameters: &[&from, &blocks, &keep_ms],
            check: &|_| Ok(()),
        };
        let rows = self.in_transaction(For::Anything, LIMITS, question, End::Commit).await?;
        Ok(rows.first().and_then(looked))
    }
}

fn looked(row: &Row) -> Option<LookedThrough> {
    let count = |column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    row.get::<_, bool>("is_mine")
        .then(|| LookedThrough { deleted: count("deleted"), blocks: count("blocks") })
}
