//! The session of a worker that publishes rows: by locks that end with its connection, whatever ends that, it is the only one that
//! reads them.

use deadpool_postgres::ClientWrapper;
use futures_util::{FutureExt, future::BoxFuture};
use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    pool::{End, For, Mode, Question, TransactionLimits},
};
use crate::decisions::verdict::{Isolation, Suspect};

/// A worker that hangs loses its connection, and with it its locks. A row that somebody locks is tried again later.
const BEGIN: &str = "SET idle_session_timeout = '30s'; SET lock_timeout = '100ms'";
const LEAD: &str = include_str!("../../sql/outgoing_lead.sql");
const WRITERS: &str = include_str!("../../sql/outgoing_writers.sql");
/// Rows that cannot be deleted alone, before the others are left as well: each may take the time of a lock.
const FAILURES: usize = 20;
/// Why a row is left by a statement that has not failed.
const KEPT: &str = "DELETE leaves it: a trigger or row security keeps it";

/// A table of what is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Table {
    /// Events.
    Outbox,
    /// Events that were refused.
    Refused,
    /// What `schedule()` writes.
    Notices,
}

impl Table {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Outbox => "outbox",
            Self::Refused => "outbox_refused",
            Self::Notices => "scheduled_notices",
        }
    }

    const fn done(self) -> (&'static str, &'static str) {
        match self {
            Self::Outbox => ("outbox_done", include_str!("../../sql/outbox_done.sql")),
            Self::Refused => ("outbox_retry_done", include_str!("../../sql/outbox_retry_done.sql")),
            Self::Notices => ("schedule_done", include_str!("../../sql/schedule_done.sql")),
        }
    }
}

/// Rows that could not be deleted.
#[derive(Debug)]
pub(crate) struct LeftRows {
    pub(crate) rows: Vec<i64>,
    /// Why the first of them could not be.
    pub(crate) reason: String,
}

/// A connection beside the pool. After a failover nothing goes through it any more, so no row is deleted that has got the number of
/// one that is published.
pub(crate) struct OutgoingSession {
    store: Store,
    client: ClientWrapper,
}

impl OutgoingSession {
    /// Opens a session. It reads nothing before [`OutgoingSession::lead`].
    pub(crate) async fn open(store: &Store) -> Result<Self, StoreError> {
        let beginning = async {
            let client = store.detached().await?;
            store.named("outgoing_begin", client.batch_execute(BEGIN).await)?;
            Ok(client)
        };
        let client = store.attended(Box::pin(beginning)).await?;
        Ok(Self { store: store.clone(), client })
    }

    /// Of these parts of a table, those that no other session publishes: this one does, from now on until it ends.
    ///
    /// # Errors
    /// The session has ended.
    pub(crate) async fn lead(
        &self,
        table: Table,
        parts: &[String],
    ) -> Result<Vec<String>, StoreError> {
        let rows = self.rows("outgoing_lead", LEAD, &[&table.name(), &parts]).await?;
        Ok(rows.iter().map(|row| row.get("part")).collect())
    }

    /// The transactions that may have written to a table and are open.
    pub(crate) async fn writers(&self, table: Table) -> Result<Vec<String>, StoreError> {
        let rows = self.rows("outgoing_writers", WRITERS, &[&table.name()]).await?;
        Ok(rows.iter().map(|row| row.get("writer")).collect())
    }

    /// Deletes rows, in ever smaller parts if one of them cannot be deleted; those that are left.
    ///
    /// # Errors
    /// The session has ended; some may be deleted.
    pub(crate) async fn forget(&self, table: Table, rows: &[i64]) -> Result<LeftRows, StoreError> {
        let (name, sql) = table.done();
        let delete = |part: Vec<i64>| {
            async move {
                let parameters: [&(dyn ToSql + Sync); 1] = [&part];
                let question = Question::new(name, sql, &parameters);
                let mode = Mode::transaction(TransactionLimits::DELETION, End::Commit);
                Ok(keys(&self.run(question, mode).await?))
            }
            .boxed()
        };
        isolate(rows, delete).await
    }

    /// Runs a prepared statement.
    pub(super) async fn rows(
        &self,
        name: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.run(Question::new(name, sql, parameters), Mode::Alone).await
    }

    async fn run(&self, question: Question<'_>, mode: Mode<'_>) -> Result<Vec<Row>, StoreError> {
        let asking = self.store.run_on(&self.client, question, mode);
        Ok(self.store.attended(Box::pin(asking)).await?.0)
    }
}

impl Store {
    /// The same for notices whose orders are final, whoever publishes them.
    ///
    /// # Errors
    /// The database is unavailable; some may be deleted.
    pub(crate) async fn forget_notices(&self, rows: &[i64]) -> Result<LeftRows, StoreError> {
        let (name, sql) = Table::Notices.done();
        let delete = |part: Vec<i64>| {
            async move {
                let parameters: [&(dyn ToSql + Sync); 1] = [&part];
                let question = Question::new(name, sql, &parameters);
                let limits = TransactionLimits::DELETION;
                let left =
                    self.in_transaction(For::Anything, limits, question, End::Commit).await?;
                Ok(keys(&left))
            }
            .boxed()
        };
        isolate(rows, delete).await
    }
}

fn keys(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.get(0)).collect()
}

/// Runs a statement on rows, in ever smaller parts if it fails for one of them; those for which it did, and those that it says are
/// left.
///
/// # Errors
/// The database has not answered.
pub(super) async fn isolate<'a>(
    rows: &[i64],
    run: impl Fn(Vec<i64>) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> + Send,
) -> Result<LeftRows, StoreError> {
    let (mut parts, mut reason) = (Isolation::new(rows.len(), false, 0), None);
    while let Some(part) = parts.next_part() {
        if parts.failures() >= FAILURES {
            parts.give_up(part, &true);
            break;
        }
        match run(rows[part.clone()].to_vec()).await {
            Ok(left) => {
                let is_left = rows[part.clone()].iter().map(|row| left.contains(row));
                parts.answered(part, is_left, true);
            }
            Err(error) if !error.is_answer() => return Err(error),
            Err(error) => {
                if part.len() == 1 {
                    reason.get_or_insert_with(|| crate::text::error_chain(&error));
                }
                let _goes_on = parts.failed(part, Suspect::Order, true);
            }
        }
    }
    let is_left = parts.into_outcomes();
    let left = rows.iter().zip(is_left).filter_map(|(row, is_left)| is_left.then_some(*row));
    Ok(LeftRows { rows: left.collect(), reason: reason.unwrap_or_else(|| KEPT.to_owned()) })
}
