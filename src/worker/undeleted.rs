//! What is published, and whose rows cannot be deleted: somebody keeps them locked, or a trigger raises. It is not published
//! again, and holds up no others.

use std::collections::BTreeSet;

use tokio::time::{Duration, Instant};

use crate::{
    store::{Store, StoreError, forget::Published},
    telemetry,
};

/// Remembered at the most: each claim passes over them. What is beyond is published again and again.
const MOST: usize = 10_000;

/// What one task has published of a table and not deleted.
#[derive(Debug)]
pub(super) struct Undeleted {
    table: Published,
    again: Duration,
    rows: BTreeSet<i64>,
    next_try: Option<Instant>,
}

impl Undeleted {
    /// Each is tried again after `again`.
    pub(super) const fn new(table: Published, again: Duration) -> Self {
        Self { table, again, rows: BTreeSet::new(), next_try: None }
    }

    /// Whether all that is published is deleted.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows that are not to be claimed.
    pub(super) fn rows(&self) -> Vec<i64> {
        self.rows.iter().copied().collect()
    }

    /// Deletes what is published, and remembers what cannot be deleted.
    ///
    /// # Errors
    /// The database is unavailable.
    pub(super) async fn forget(
        &mut self,
        store: &Store,
        published: &[i64],
    ) -> Result<(), StoreError> {
        self.rows.extend(published);
        let left = store.forget(self.table, published).await?;
        for row in published {
            self.rows.remove(row);
        }
        let Some(first) = left.rows.first() else { return Ok(()) };
        telemetry::rows_undeletable(self.table.table(), left.rows.len(), *first, &left.reason);
        let room = MOST.saturating_sub(self.rows.len());
        self.rows.extend(left.rows.into_iter().take(room));
        self.next_try = Some(Instant::now() + self.again);
        Ok(())
    }

    /// Tries again after a while.
    ///
    /// # Errors
    /// The database is unavailable.
    pub(super) async fn try_again(&mut self, store: &Store) -> Result<(), StoreError> {
        if self.rows.is_empty() || self.next_try.is_some_and(|next| Instant::now() < next) {
            return Ok(());
        }
        self.next_try = Some(Instant::now() + self.again);
        self.rows = store.forget(self.table, &self.rows()).await?.rows.into_iter().collect();
        Ok(())
    }
}
