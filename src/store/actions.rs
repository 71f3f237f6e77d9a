//! What people do with `overdue`, in the table `actions`.

use std::fmt;

use tokio_postgres::{Row, types::ToSql};

use super::{Store, StoreError, clock::DatabaseTime};
use crate::{order::OrderId, text::one_line, why::Action};

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
        const SQL: &str = "SELECT to_regclass('actions') IS NOT NULL";
        Ok(self.one("has_actions", SQL, &[]).await?.get(0))
    }

    /// The newest, at most `limit`.
    pub(crate) async fn actions(&self, limit: i64) -> Result<Vec<Action>, StoreError> {
        const SQL: &str = include_str!("../../sql/actions_newest.sql");
        Ok(self.rows("actions_newest", SQL, &[&limit]).await?.iter().map(action).collect())
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
