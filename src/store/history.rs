//! Deleting what is older than is kept, a few blocks at a time.

use std::time::Duration;

use tokio_postgres::Row;

use super::{Store, StoreError, run_statement::Patience};

/// A statement that waits for somebody, or takes long, gives up: nobody waits for it.
const PATIENCE: Patience =
    Patience { lock: Duration::from_millis(100), statement: Some(Duration::from_secs(2)) };
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
        self.attended(Box::pin(self.delete_once(table, from, keep))).await
    }

    /// What is sent goes out in one piece: whoever drops this leaves no open transaction behind.
    async fn delete_once(
        &self,
        table: HistoryTable,
        from: u64,
        keep: Duration,
    ) -> Result<Option<LookedThrough>, StoreError> {
        const NAME: &str = "history";
        let client = self.cancellable().await?;
        let statement = self.named(NAME, client.prepare_cached(table.sql()).await);
        let result = match statement {
            Err(error) => Err(error),
            Ok(statement) => {
                let number = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
                let (from, blocks) = (number(from), number(BLOCKS));
                let keep_ms = i64::try_from(keep.as_millis()).unwrap_or(i64::MAX);
                let limited = PATIENCE.begin();
                let (begun, row, committed) = tokio::join!(
                    biased;
                    client.batch_execute(&limited),
                    async { client.query_one(&statement, &[&from, &blocks, &keep_ms]).await },
                    client.batch_execute("COMMIT"),
                );
                self.named(NAME, begun.and(row).and_then(|row| committed.map(|()| row)))
            }
        };
        if !result.as_ref().is_err_and(StoreError::is_stale) {
            client.done();
        }
        Ok(looked(&result?))
    }
}

fn looked(row: &Row) -> Option<LookedThrough> {
    let count = |column: &str| u64::try_from(row.get::<_, i64>(column)).unwrap_or(0);
    row.get::<_, bool>("is_mine")
        .then(|| LookedThrough { deleted: count("deleted"), blocks: count("blocks") })
}
