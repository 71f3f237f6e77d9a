//! Obstacles that keep overdue orders from being closed, found by an attempt that is rolled back.

use std::{fmt, time::Duration};

use serde::Serialize;

use crate::text::{about, option, quote};

/// The reason why an order is not closed, and the next step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Obstacle {
    /// The reason in one line.
    pub reason: String,
    /// The next step.
    pub next: String,
    /// The kind of the obstacle.
    pub kind: Kind,
}

/// An attempt to close overdue orders, which was rolled back.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Attempt {
    /// Overdue orders that the attempt included.
    pub orders: usize,
    /// The obstacle for one order, or for all.
    pub obstacle: Option<Obstacle>,
}

/// The kind of an obstacle.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Another session holds a lock: the obstacle ends when the lock is released.
    Lock,
    /// The user of the attempt lacks a right, which a worker's user may have.
    Right,
    /// The SQL, or the contents of the tables.
    Effect,
}

/// A lock that an order waits for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lock {
    /// The table's name.
    pub table: Option<String>,
    /// Whether a single row is locked.
    pub is_row: bool,
    /// The session with the lock; `None` if it was not seen.
    pub holder: Option<Holder>,
}

/// A session with a lock.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Process id of the session.
    pub pid: i32,
    /// The login.
    pub user: String,
    /// `application_name` of the session; may be empty.
    pub application: String,
    /// `pg_stat_activity.state`, and the age of the transaction; `None` without `pg_read_all_stats`.
    pub doing: Option<(String, Duration)>,
}

impl Obstacle {
    /// The effect closes no order at all.
    pub fn of_all(effect: &str, reason: &str) -> Self {
        let reason = format!("orders cannot be closed: {reason}");
        Self { reason, next: check(effect), kind: Kind::Effect }
    }

    /// A person must accept the terms of the effect first.
    pub fn unaccepted(effect: &str, reason: &str) -> Self {
        let next = format!("overdue effect accept {}", quote(effect));
        Self { reason: format!("orders cannot be closed: {reason}"), next, kind: Kind::Effect }
    }

    /// This user has no right to close orders.
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

    /// Another session has a lock that closing `order` needs; without an order, closing any order.
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
