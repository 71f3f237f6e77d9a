//! The session of a worker that publishes rows: by locks that end with its connection, whatever ends that, it is the only one that
//! reads them.

use std::collections::BTreeSet;

use deadpool_postgres::ClientWrapper;
use futures_util::{FutureExt, future::BoxFuture};
use tokio_postgres::{Row, SimpleQueryMessage, types::ToSql};

use super::{
    Store, StoreError,
    pool::{End, Mode, PoolKind, StatementCall, TransactionLimits},
};
use crate::decisions::bisection::{BatchBisector, FailureScope};

/// A worker that hangs loses its connection, and with it its locks. A row that somebody locks is tried again later.
const BEGIN: &str = "SET idle_session_timeout = '30s'; SET lock_timeout = '100ms'";
/// The same of a transaction that holds locks. It has no snapshot between its statements, so it keeps no dead row from being
/// removed. PostgreSQL 17 has one time-out more.
pub(super) const BEGIN_LOCKS: &str = "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL idle_in_transaction_session_timeout = '30s'; \
     SELECT pg_catalog.set_config('transaction_timeout', '0', true) \
     WHERE pg_catalog.current_setting('transaction_timeout', true) IS NOT NULL";
const IS_DIRECT: &str =
    "SELECT coalesce(pg_catalog.current_setting('overdue.session', true), '') = 'direct'";
/// Another one on each server, also on a standby that becomes the primary; the same in each time zone.
const SERVER: &str = "SELECT extract(epoch FROM pg_catalog.pg_postmaster_start_time())";
const LEAD: &str = include_str!("../../sql/outgoing_lead.sql");
const WRITERS: &str = include_str!("../../sql/outgoing_writers.sql");
const CLOSED: &str = include_str!("../../sql/schedule_closed.sql");
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

    fn in_schema(self, schema: &str) -> String {
        format!("{schema}.{}", self.name())
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
    /// Those that have failed alone are the last: tried again in this order, they keep none of the others.
    pub(crate) rows: Vec<i64>,
    /// Why the first of them could not be.
    pub(crate) reason: String,
}

/// A connection beside the pool. After a failover nothing goes through it any more, so no row is deleted that has got the number of
/// one that is published.
///
/// Behind a pooler, which may give each transaction another session, the locks are those of a transaction that stays open on a
/// second connection, and each statement runs only on the server where that one is. A session that has no lock has no transaction: it
/// would keep one of the pooler's connections from others.
pub(crate) struct OutgoingSession {
    store: Store,
    client: ClientWrapper,
    locks: Option<ClientWrapper>,
    leads: bool,
}

impl OutgoingSession {
    /// Opens a session. It reads nothing before [`OutgoingSession::lead`].
    pub(crate) async fn open(store: &Store) -> Result<Self, StoreError> {
        let beginning = async {
            let client = store.detached().await?;
            let asked = StatementCall::new("outgoing_session", IS_DIRECT, &[]);
            let (rows, _) = store.run_on(&client, asked, Mode::Alone).await?;
            if rows.iter().any(|row| row.get(0)) {
                store.named("outgoing_begin", client.batch_execute(BEGIN).await)?;
                return Ok((client, None));
            }
            Ok((client, Some(store.detached().await?)))
        };
        let (client, locks) = store.with_watchdog(Box::pin(beginning)).await?;
        Ok(Self { store: store.clone(), client, locks, leads: false })
    }

    /// Of these parts of a table, those that no other session publishes: this one does, from now on until it ends.
    pub(crate) async fn lead(
        &mut self,
        table: Table,
        parts: &[String],
    ) -> Result<Vec<String>, StoreError> {
        let (name, in_transaction) =
            (table.in_schema(&self.store.own_schema), self.locks.is_some());
        let parameters: [&(dyn ToSql + Sync); 3] = [&name, &parts, &in_transaction];
        let question = StatementCall::new("outgoing_lead", LEAD, &parameters);
        let asking = async {
            let Some(locks) = &self.locks else {
                return self.store.run_on(&self.client, question, Mode::Alone).await;
            };
            if !self.leads {
                self.store.named("outgoing_begin", locks.batch_execute(BEGIN_LOCKS).await)?;
            }
            let answer = self.store.run_on(locks, question, Mode::Alone).await?;
            if !self.leads && answer.0.is_empty() {
                let ended = locks.batch_execute(End::Rollback.sql()).await;
                self.store.named("outgoing_begin", ended)?;
            }
            Ok(answer)
        };
        let (rows, _) = self.store.with_watchdog(Box::pin(asking)).await?;
        self.leads |= !rows.is_empty();
        Ok(rows.iter().map(|row| row.get("part")).collect())
    }

    /// The transactions that may have written to a table and are open.
    pub(crate) async fn writers(&self, table: Table) -> Result<Vec<String>, StoreError> {
        let table = table.in_schema(&self.store.own_schema);
        let rows = self.rows("outgoing_writers", WRITERS, &[&table]).await?;
        Ok(rows.iter().map(|row| row.get("writer")).collect())
    }

    /// Deletes rows, in ever smaller parts if one of them cannot be deleted; those that are left.
    /// If it fails, the session has ended and some may be deleted.
    pub(crate) async fn forget(&self, table: Table, rows: &[i64]) -> Result<LeftRows, StoreError> {
        let (name, sql) = table.done();
        let delete = |part: Vec<i64>| {
            async move {
                let parameters: [&(dyn ToSql + Sync); 1] = [&part];
                let question = StatementCall::new(name, sql, &parameters);
                Ok(keys(&self.run(question, TransactionLimits::DELETION).await?))
            }
            .boxed()
        };
        let left = isolate(rows, &delete).await?;
        if left.rows.is_empty() || left.reason != KEPT {
            return Ok(left);
        }
        // A statement that has waited for somebody who deleted them still sees them.
        isolate(&left.rows, delete).await
    }

    /// Runs a prepared statement.
    pub(super) async fn rows(
        &self,
        name: &'static str,
        sql: &str,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        self.run(StatementCall::new(name, sql, parameters), TransactionLimits::NONE).await
    }

    /// The same in a transaction with these limits, where there are any.
    pub(super) async fn run(
        &self,
        question: StatementCall<'_>,
        limits: TransactionLimits,
    ) -> Result<Vec<Row>, StoreError> {
        let asking = async {
            if let Some(locks) = &self.locks {
                return self.run_beside(locks, question, limits).await;
            }
            let mode = if limits == TransactionLimits::NONE {
                Mode::Alone
            } else {
                Mode::transaction(limits, End::Commit)
            };
            Ok(self.store.run_on(&self.client, question, mode).await?.0)
        };
        self.store.with_watchdog(Box::pin(asking)).await
    }

    /// On the server that has the locks, as long as it has them.
    async fn run_beside(
        &self,
        locks: &ClientWrapper,
        question: StatementCall<'_>,
        limits: TransactionLimits,
    ) -> Result<Vec<Row>, StoreError> {
        let asks_too = format!("{}; {SERVER}", limits.begin());
        let (held, begun) =
            tokio::join!(locks.simple_query(SERVER), self.client.simple_query(&asks_too));
        let begun = self.store.named(question.name, begun)?;
        if !held.is_ok_and(|held| cell(&held) == cell(&begun)) {
            // The session ends with it, and with the session what has begun.
            let reason = "the transaction that has the locks is over, or on another server";
            let (address, reason) = (self.store.address().to_owned(), reason.to_owned());
            return Err(StoreError::Pool { address, reason });
        }
        let answer = self.store.run_on(&self.client, question, Mode::Alone).await;
        let end = if answer.is_ok() { End::Commit } else { End::Rollback };
        let ended = self.client.batch_execute(end.sql()).await;
        let (rows, _) = answer?;
        self.store.named(question.name, ended)?;
        Ok(rows)
    }
}

fn cell(answer: &[SimpleQueryMessage]) -> Option<&str> {
    answer.iter().find_map(|message| match message {
        SimpleQueryMessage::Row(row) => row.get(0),
        _ => None,
    })
}

impl Store {
    /// The same for notices of these orders, which are final, whoever publishes them. If it fails, some may be deleted.
    pub(crate) async fn forget_notices(
        &self,
        rows: &[i64],
        orders: &[&str],
    ) -> Result<(), StoreError> {
        let delete = |part: Vec<i64>| {
            async move {
                let parameters: [&(dyn ToSql + Sync); 3] = [&part, &rows, &orders];
                let question = StatementCall::new("schedule_closed", CLOSED, &parameters);
                let limits = TransactionLimits::DELETION;
                self.in_transaction(PoolKind::Anything, limits, question, End::Commit).await?;
                Ok(Vec::new())
            }
            .boxed()
        };
        isolate(rows, delete).await.map(drop)
    }
}

fn keys(rows: &[Row]) -> Vec<i64> {
    rows.iter().map(|row| row.get(0)).collect()
}

#[derive(Clone, PartialEq, Eq)]
enum Fate {
    Done,
    Failed,
    /// It was not tried alone.
    Unknown,
}

/// Runs a statement on rows, in ever smaller parts if it fails for one of them; those for which it did, and those that it says are
/// left.
pub(super) async fn isolate<'a>(
    rows: &[i64],
    run: impl Fn(Vec<i64>) -> BoxFuture<'a, Result<Vec<i64>, StoreError>> + Send,
) -> Result<LeftRows, StoreError> {
    let (mut parts, mut reason) = (BatchBisector::new(rows.len(), Fate::Done, 0), None);
    while let Some(part) = parts.next_part() {
        if parts.failures() >= FAILURES {
            parts.give_up(part, &Fate::Unknown);
            break;
        }
        match run(rows[part.clone()].to_vec()).await {
            Ok(left) => {
                let left: BTreeSet<i64> = left.into_iter().collect();
                let fate = |row| if left.contains(row) { Fate::Failed } else { Fate::Done };
                parts.answered(part.clone(), rows[part].iter().map(fate), true);
            }
            Err(error) if !error.is_answer() => return Err(error),
            Err(error) => {
                if part.len() == 1 {
                    reason.get_or_insert_with(|| crate::text::error_chain(&error));
                }
                let _goes_on = parts.failed(part, FailureScope::Order, Fate::Failed);
            }
        }
    }
    let fates = parts.into_outcomes();
    let those = |fate| rows.iter().zip(&fates).filter(move |it| *it.1 == fate).map(|it| *it.0);
    let left = those(Fate::Unknown).chain(those(Fate::Failed)).collect();
    Ok(LeftRows { rows: left, reason: reason.unwrap_or_else(|| KEPT.to_owned()) })
}
