//! What `overdue` keeps of the past: recording what a person has dropped from the parking lot, and deleting what is older than is kept,
//! a few blocks at a time. What people have done is recorded by `actions`.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use super::{
    Store, StoreError,
    clock::to_ms,
    pool::{End, For, Question, TransactionLimits, count},
};

/// Blocks of 8 KiB that are read at once: some thousand rows.
pub(crate) const BLOCKS: u64 = 32;

/// A table that only grows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryTable {
    /// `closures`, by `closed_at`.
    Closures,
    /// `dropped_messages`, by `dropped_at`.
    DroppedMessages,
    /// `actions`, by `at`.
    Actions,
}

impl HistoryTable {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Closures => "closures",
            Self::DroppedMessages => "dropped_messages",
            Self::Actions => "actions",
        }
    }

    const fn sql(self) -> &'static str {
        match self {
            Self::Closures => include_str!("../../sql/history_closures.sql"),
            Self::DroppedMessages => include_str!("../../sql/history_dropped.sql"),
            Self::Actions => include_str!("../../sql/history_actions.sql"),
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

/// A message that is about to be dropped, as it is recorded.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedMessage {
    pub(crate) queue: String,
    pub(crate) order_id: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) routing_key: String,
    pub(crate) message_id: Option<String>,
    pub(crate) parked_because: String,
    pub(crate) parked_at: Option<Timestamp>,
    /// None where it was too large to be read.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) body_bytes: i64,
}

impl Store {
    /// Deletes the rows of [`BLOCKS`] blocks, from block `from` on, that are older than `keep`; `None` while another session
    /// does so in this table. It fails where somebody holds a row for longer than 100 ms, or where it takes 5 s.
    pub(crate) async fn delete_old(
        &self,
        table: HistoryTable,
        from: u64,
        keep: Duration,
    ) -> Result<Option<LookedThrough>, StoreError> {
        let number = |it: u64| i64::try_from(it).unwrap_or(i64::MAX);
        let (from, blocks) = (number(from), number(BLOCKS));
        let parameters: [&(dyn ToSql + Sync); 3] = [&from, &blocks, &to_ms(keep)];
        let question = Question::new("history", table.sql(), &parameters);
        let rows = self
            .in_transaction(For::Anything, TransactionLimits::DELETION, question, End::Commit)
            .await?;
        let mine = rows.first().filter(|row| row.get("is_mine"));
        Ok(mine.map(|row| LookedThrough {
            deleted: count(row, "deleted"),
            blocks: count(row, "blocks"),
        }))
    }

    /// Records messages, in one transaction; `because` is what the person says. If it fails, nothing is to be dropped.
    pub(crate) async fn record_dropped(
        &self,
        messages: &[DroppedMessage],
        because: &str,
    ) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../../sql/parked_dropped.sql");
        let texts = |of: fn(&DroppedMessage) -> Option<&str>| -> Vec<Option<&str>> {
            messages.iter().map(of).collect()
        };
        let queues = texts(|it| Some(&it.queue));
        let orders = texts(|it| it.order_id.as_deref());
        let timeouts = texts(|it| it.timeout.as_deref());
        let keys = texts(|it| Some(&it.routing_key));
        let ids = texts(|it| it.message_id.as_deref());
        let reasons = texts(|it| Some(&it.parked_because));
        let times: Vec<Option<Timestamp>> = messages.iter().map(|it| it.parked_at).collect();
        let bodies: Vec<Option<&[u8]>> = messages.iter().map(|it| it.body.as_deref()).collect();
        let sizes: Vec<i64> = messages.iter().map(|it| it.body_bytes).collect();
        let parameters: [&(dyn ToSql + Sync); 10] =
            [&queues, &orders, &timeouts, &keys, &ids, &reasons, &times, &bodies, &sizes, &because];
        self.rows("parked_dropped", SQL, &parameters).await.map(drop)
    }
}
