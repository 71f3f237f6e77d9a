//! Events that are published, and whose rows cannot be deleted: somebody keeps them locked, or a trigger raises. They are not
//! published again, and hold up no others.

use std::collections::BTreeSet;

use tokio::time::{Duration, Instant};

use crate::{
    store::{Store, StoreError},
    telemetry,
};

/// Remembered at the most: each claim passes over them. What is beyond is published again and again.
const MOST: usize = 10_000;

/// What one relay has published and not deleted.
#[derive(Debug)]
pub(super) struct Undeleted {
    again: Duration,
    rows: BTreeSet<i64>,
    next_try: Option<Instant>,
}

impl Undeleted {
    /// Each is tried again after `again`.
    pub(super) const fn new(again: Duration) -> Self {
        Self { again, rows: BTreeSet::new(), next_try: None }
    }

    /// Whether all that is published is deleted.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    /// The rows that are not to be claimed.
    pub(super) fn rows(&self) -> Vec<i64> {
        self.rows.iter().copied().collect()
    }

    /// All of these could not be deleted at once, because of `reason`: deletes what can be, and remembers the rest.
    ///
    /// # Errors
    /// The database is unavailable.
    pub(super) async fn add(
        &mut self,
        store: &Store,
        published: &[i64],
        reason: &str,
    ) -> Result<(), StoreError> {
        self.rows.extend(published);
        let left = store.forget_one_by_one(published).await?;
        for row in published {
            self.rows.remove(row);
        }
        self.rows.extend(left.iter().copied().take(MOST.saturating_sub(self.rows.len())));
        self.next_try = Some(Instant::now() + self.again);
        if let Some(first) = left.first() {
            telemetry::events_undeletable(left.len(), *first, reason);
        }
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
        self.rows = store.forget_one_by_one(&self.rows()).await?.into_iter().collect();
        Ok(())
    }
}
