//! Records actions of people and messages dropped from the parking lot, and deletes rows of the history that are too old.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    clock::{DatabaseTime, to_ms},
    pool::{End, PoolKind, StatementCall, TransactionLimits, count},
};
use crate::{order::OrderId, text::one_line, why::Action};

/// Limit of rows for one DELETE: it takes a fraction of a second.
pub(crate) const ROWS: u64 = 10_000;

/// A table from which the worker deletes old rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum HistoryTable {
    /// Rows age by `closed_at`.
    Closures,
    /// Rows age by `dropped_at`.
    DroppedMessages,
    /// Rows age by `at`.
    Actions,
}

impl HistoryTable {
    pub(crate) const ALL: [Self; 3] = [Self::Closures, Self::DroppedMessages, Self::Actions];

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

/// A record of a message that will be dropped.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct DroppedMessage {
    pub(crate) queue: String,
    pub(crate) order_id: Option<String>,
    pub(crate) timeout: Option<String>,
    pub(crate) routing_key: String,
    pub(crate) message_id: Option<String>,
    pub(crate) parked_because: String,
    pub(crate) parked_at: Option<Timestamp>,
    /// `None` if the body was too large to be read.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) body_bytes: i64,
}

/// Limit of the recorded orders of one action: some megabytes.
pub(crate) const MOST_ORDERS: usize = 100_000;

/// The program that a person used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via<'a> {
    /// The command line.
    Cli,
    /// `overdue ui`, with the name of the login.
    Page(&'a str),
}

impl fmt::Display for Via<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cli => f.write_str("cli"),
            Self::Page(name) => write!(f, "page: {}", one_line(name)),
        }
    }
}

/// An action of a person, to be recorded.
#[derive(Clone, Debug)]
pub(crate) struct NewAction<'a> {
    pub(crate) via: Via<'a>,
    /// The command, e.g. `parked replay`.
    pub(crate) action: &'a str,
    /// A filter or a name.
    pub(crate) what: String,
    /// Messages, orders or steps.
    pub(crate) count: Option<u64>,
    /// The reason that the person gave.
    pub(crate) why: Option<&'a str>,
    /// The known orders, at most [`MOST_ORDERS`].
    pub(crate) orders: &'a [String],
}

impl Store {
    /// Deletes at most [`ROWS`] rows, the oldest first, that are older than `keep` by the database's clock and by `now` of this
    /// machine. Deletes nothing while another session deletes in this table. Fails if another session locks a row for 100 ms, or
    /// after 5 s.
    pub(crate) async fn delete_old(
        &self,
        table: HistoryTable,
        now: DatabaseTime,
        keep: Duration,
    ) -> Result<u64, StoreError> {
        let rows = i64::try_from(ROWS).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 3] = [&now, &to_ms(keep), &rows];
        let question = StatementCall::new("history", table.sql(), &parameters);
        let rows = self
            .in_transaction(PoolKind::Anything, TransactionLimits::DELETION, question, End::Commit)
            .await?;
        Ok(rows.first().map_or(0, |row| count(row, "deleted")))
    }

    /// Records messages in one transaction, with the person's reason in `because`. If it fails, no message must be dropped.
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

    /// Records an action; the session gives the user.
    pub(crate) async fn record_action(&self, action: &NewAction<'_>) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../../sql/action_record.sql");
        let NewAction { via, action, what, count, why, orders } = action;
        // PostgreSQL's text cannot contain NUL.
        let (what, why) = (one_line(what), why.map(one_line));
        let count = count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        let orders = &orders[..orders.len().min(MOST_ORDERS)];
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&via.to_string(), action, &what, &count, &why, &orders];
        self.rows("action_record", SQL, &parameters).await.map(drop)
    }

    /// Whether the table `actions` exists.
    pub(crate) async fn has_actions(&self) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT to_regclass('{own}.actions') IS NOT NULL";
        Ok(self.one("has_actions", SQL, &[]).await?.get(0))
    }

    /// The newest actions on an order, at most `limit`.
    pub(crate) async fn actions_of_order(
        &self,
        id: &OrderId,
        limit: i64,
    ) -> Result<Vec<Action>, StoreError> {
        const SQL: &str = include_str!("../../sql/actions_of_order.sql");
        let rows = self.rows("actions_of_order", SQL, &[&id.spellings(), &limit]).await?;
        Ok(rows.iter().map(action).collect())
    }
}

fn action(row: &Row) -> Action {
    let count: Option<i64> = row.get("count");
    Action {
        at: row.get::<_, DatabaseTime>("at").timestamp(),
        by: row.get("by"),
        via: row.get("via"),
        action: row.get("action"),
        what: row.get("what"),
        count: count.map(i64::unsigned_abs),
        why: row.get("why"),
    }
}
