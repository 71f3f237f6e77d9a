//! What keeps overdue orders from being closed, as an attempt shows it that is rolled back.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::text::{about, option, quote};

/// Why an order is not closed, and what helps.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// In one line.
    pub reason: String,
    /// What to do.
    pub next: String,
    /// What kind it is of.
    pub kind: Kind,
}

/// An attempt to close overdue orders, which was rolled back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// How many overdue orders it tried to close.
    pub orders: usize,
    /// Why one of them cannot be closed, or none at all.
    pub obstacle: Option<Obstacle>,
}

/// What an obstacle is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Somebody holds a lock: it is over when they let go.
    Lock,
    /// The user who tries lacks a right, which a worker's user may have.
    Right,
    /// The SQL, or what is in the tables.
    Effect,
}

/// A lock that does not come.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The table.
    pub table: Option<String>,
    /// A row of it, and not all of it.
    pub is_row: bool,
    /// Who holds it; `None` where nobody could be seen to.
    pub holder: Option<Holder>,
}

/// A transaction of somebody else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Its session.
    pub pid: i32,
    /// Who has logged in.
    pub user: String,
    /// What the session calls itself; may be empty.
    pub application: String,
    /// As `pg_stat_activity.state` has it, and how long the transaction has been open; `None` without `pg_read_all_stats`.
    pub doing: Option<(String, Duration)>,
}

impl Obstacle {
    /// The effect closes nothing, whichever order it is.
    pub fn of_all(effect: &str, reason: &str) -> Self {
        let reason = format!("orders cannot be closed: {reason}");
        Self { reason, next: check(effect), kind: Kind::Effect }
    }

    /// A person has to accept the terms of the effect first.
    pub fn unaccepted(effect: &str, reason: &str) -> Self {
        let next = format!("overdue effect accept {}", quote(effect));
        Self { reason: format!("orders cannot be closed: {reason}"), next, kind: Kind::Effect }
    }

    /// This user may not close orders.
    pub fn right(user: &str, reason: &str) -> Self {
        let reason = format!("user {user} cannot close orders: {reason}");
        Self { reason, next: "overdue permissions --database".to_owned(), kind: Kind::Right }
    }

    /// The effect fails for this order.
    pub fn of_order(effect: &str, order: &str, reason: &str) -> Self {
        let reason = format!("order {order} cannot be closed: {reason}");
        let next = format!("{}{}", check(effect), option(" --order", order));
        Self { reason, next, kind: Kind::Effect }
    }

    /// Somebody holds a lock that closing this order needs; without one, closing any.
    pub fn lock(order: Option<&str>, lock: &Lock) -> Self {
        let what = order.map_or_else(|| "orders".to_owned(), |order| format!("order {order}"));
        let next = lock.holder.as_ref().map_or_else(
            || "look for it in pg_stat_activity".to_owned(),
            |holder| {
                format!(
                    "wait until it ends, or end it: SELECT pg_terminate_backend({})",
                    holder.pid
                )
            },
        );
        Self { reason: format!("{what} cannot be closed: {lock}"), next, kind: Kind::Lock }
    }
}

fn check(effect: &str) -> String {
    format!("overdue effect check {}", quote(effect))
}

/// `a row of events is locked by pid 2183 (backoffice, user shop), idle in transaction for 14s`.
impl fmt::Display for Lock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.table, self.is_row) {
            (Some(table), true) => write!(f, "a row of {table} is locked by ")?,
            (Some(table), false) => write!(f, "{table} is locked by ")?,
            (None, _) => f.write_str("a row that it needs is locked by ")?,
        }
        match &self.holder {
            Some(holder) => holder.fmt(f),
            None => f.write_str("a transaction that was not seen"),
        }
    }
}

impl fmt::Display for Holder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { pid, user, application, doing } = self;
        let comma = if application.is_empty() { "" } else { ", " };
        write!(f, "pid {pid} ({application}{comma}user {user})")?;
        match doing {
            Some((state, age)) => write!(f, ", {state} for {}", about(*age)),
            None => f.write_str("; what it does shows with GRANT pg_read_all_stats"),
        }
    }
}
