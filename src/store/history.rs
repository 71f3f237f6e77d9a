//! What `overdue` keeps of the past: recording what people do, and what a person has dropped from the parking lot; and deleting what is
//! older than is kept.

use std::{fmt, time::Duration};

use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    clock::{DatabaseTime, to_ms},
    pool::{End, For, Question, TransactionLimits, count},
};
use crate::{order::OrderId, text::one_line, why::Action};

/// Rows that one statement deletes at most: a fraction of a second.
pub(crate) const ROWS: u64 = 10_000;

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

/// Orders of one action that are recorded: some megabytes.
pub(crate) const MOST_ORDERS: usize = 100_000;

/// From where a person acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Via<'a> {
    /// The command line.
    Cli,
    /// `overdue ui`, and the name that somebody has logged in with.
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

/// What a person has done a moment ago.
#[derive(Clone, Debug)]
pub(crate) struct NewAction<'a> {
    pub(crate) via: Via<'a>,
    /// As the command line calls it: `parked replay`.
    pub(crate) action: &'a str,
    /// A filter or a name.
    pub(crate) what: String,
    /// Messages, orders or steps.
    pub(crate) count: Option<u64>,
    /// What the person says.
    pub(crate) why: Option<&'a str>,
    /// As far as they are known, [`MOST_ORDERS`] of them.
    pub(crate) orders: &'a [String],
}

impl Store {
    /// Deletes at most [`ROWS`] rows that are older than `keep` by the database's clock and by `now` of this machine, the oldest first;
    /// none while another session does so in this table. It fails where somebody holds a row for longer than 100 ms, or where it
    /// takes 5 s.
    pub(crate) async fn delete_old(
        &self,
        table: HistoryTable,
        now: DatabaseTime,
        keep: Duration,
    ) -> Result<u64, StoreError> {
        let rows = i64::try_from(ROWS).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 3] = [&now, &to_ms(keep), &rows];
        let question = Question::new("history", table.sql(), &parameters);
        let rows = self
            .in_transaction(For::Anything, TransactionLimits::DELETION, question, End::Commit)
            .await?;
        Ok(rows.first().map_or(0, |row| count(row, "deleted")))
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

    /// Records it; who that is, the session says.
    pub(crate) async fn record_action(&self, action: &NewAction<'_>) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../../sql/action_record.sql");
        let NewAction { via, action, what, count, why, orders } = action;
        // PostgreSQL's text has no NUL.
        let (what, why) = (one_line(what), why.map(one_line));
        let count = count.map(|count| i64::try_from(count).unwrap_or(i64::MAX));
        let orders = &orders[..orders.len().min(MOST_ORDERS)];
        let parameters: [&(dyn ToSql + Sync); 6] =
            [&via.to_string(), action, &what, &count, &why, &orders];
        self.rows("action_record", SQL, &parameters).await.map(drop)
    }

    /// Whether the table is there.
    pub(crate) async fn has_actions(&self) -> Result<bool, StoreError> {
        const SQL: &str = "SELECT to_regclass('{own}.actions') IS NOT NULL";
        Ok(self.one("has_actions", SQL, &[]).await?.get(0))
    }

    /// The newest that concern an order, at most `limit`.
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
