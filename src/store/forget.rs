//! Deleting the rows of what was published. One that cannot be deleted (somebody locks it, a trigger raises) keeps no others.

use std::time::Duration;

use super::{
    Store, StoreError,
    pool::{End, For, Limits, Question},
};
use crate::decisions::verdict::{Isolation, Suspect};

/// A row that somebody locks is tried again later.
const SHORT: Limits =
    Limits { lock: Some(Duration::from_millis(100)), statement: Some(Duration::from_secs(5)) };
/// Rows that cannot be deleted alone, before the others are left as well: each may take the time of a lock.
const FAILURES: usize = 20;

/// A table of what is published.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Published {
    Events,
    Notices,
}

impl Published {
    /// Its name.
    pub(crate) const fn table(self) -> &'static str {
        match self {
            Self::Events => "outbox",
            Self::Notices => "scheduled_notices",
        }
    }

    const fn done(self) -> (&'static str, &'static str) {
        match self {
            Self::Events => ("outbox_done", include_str!("../../sql/outbox_done.sql")),
            Self::Notices => ("schedule_done", include_str!("../../sql/schedule_done.sql")),
        }
    }
}

/// Rows that could not be deleted.
#[derive(Debug, Default)]
pub(crate) struct Undeletable {
    pub(crate) rows: Vec<i64>,
    /// Why the first of them could not be.
    pub(crate) reason: String,
}

impl Store {
    /// Deletes rows, in ever smaller parts if one of them cannot be deleted; those that are left.
    ///
    /// # Errors
    /// The database is unavailable; some may be deleted.
    pub(crate) async fn forget(
        &self,
        table: Published,
        rows: &[i64],
    ) -> Result<Undeletable, StoreError> {
        let (mut parts, mut reason) = (Isolation::new(rows.len(), false, 0), String::new());
        while let Some(part) = parts.next_part() {
            if parts.failures() >= FAILURES {
                parts.give_up(part, &true);
                break;
            }
            match self.delete(table, &rows[part.clone()]).await {
                Ok(()) => parts.answered(part, [], true),
                Err(error) if !error.is_answer() => return Err(error),
                Err(error) => {
                    if part.len() == 1 && reason.is_empty() {
                        reason = crate::text::error_chain(&error);
                    }
                    let _goes_on = parts.failed(part, Suspect::Order, true);
                }
            }
        }
        let is_left = parts.into_outcomes();
        let left = rows.iter().zip(is_left).filter_map(|(row, is_left)| is_left.then_some(*row));
        Ok(Undeletable { rows: left.collect(), reason })
    }

    async fn delete(&self, table: Published, rows: &[i64]) -> Result<(), StoreError> {
        let (name, sql) = table.done();
        let question = Question { name, sql, parameters: &[&rows], check: &|_| Ok(()) };
        self.in_transaction(For::Anything, SHORT, question, End::Commit).await.map(drop)
    }
}
