//! What is published, and whose rows cannot be deleted: somebody keeps them locked, or a trigger raises or keeps them. It is not
//! published again, and holds up no others.

use std::collections::BTreeMap;

use tokio::time::{Duration, Instant};

use crate::{
    store::{
        StoreError,
        outgoing::{OutgoingSession, Table},
    },
    telemetry,
    worker::outgoing::PARTS,
};

/// Each page passes over them. Beyond so many nothing more is published until some can be deleted: nothing goes out again and
/// again.
const MOST: usize = 10_000;

/// What one session has published and not deleted.
#[derive(Debug)]
pub(super) struct Undeleted {
    again: Duration,
    rows: BTreeMap<Table, Vec<i64>>,
    next_try: Option<Instant>,
}

impl Undeleted {
    /// Each is tried again after `again`.
    pub(super) const fn new(again: Duration) -> Self {
        Self { again, rows: BTreeMap::new(), next_try: None }
    }

    /// Whether all that is published is deleted.
    pub(super) fn is_empty(&self) -> bool {
        self.rows.values().all(Vec::is_empty)
    }

    /// Why nothing more is to be published.
    pub(super) fn is_full(&self) -> Option<String> {
        let (table, rows) = self.rows.iter().find(|(_, rows)| rows.len() >= MOST)?;
        Some(format!("{} rows of {} are published and cannot be deleted", rows.len(), table.name()))
    }

    /// The rows of a table that are not to be read.
    pub(super) fn rows(&self, table: Table) -> Vec<i64> {
        self.rows.get(&table).cloned().unwrap_or_default()
    }

    /// Deletes what is published, and remembers what cannot be deleted.
    pub(super) async fn forget(
        &mut self,
        session: &OutgoingSession,
        table: Table,
        published: &[i64],
    ) -> Result<(), StoreError> {
        let left = session.forget(table, published).await?;
        let Some(first) = left.rows.first() else { return Ok(()) };
        telemetry::rows_undeletable(table.name(), left.rows.len(), *first, &left.reason);
        self.rows.entry(table).or_default().extend(left.rows);
        if self.next_try.is_none_or(|next| next <= Instant::now()) {
            self.next_try = Some(Instant::now() + self.again);
        }
        Ok(())
    }

    /// Tries again after a while.
    pub(super) async fn try_again(&mut self, session: &OutgoingSession) -> Result<(), StoreError> {
        if self.is_empty() || self.next_try.is_some_and(|next| Instant::now() < next) {
            return Ok(());
        }
        let began = Instant::now();
        for (table, known) in &mut self.rows {
            *known = session.forget(*table, known).await?.rows;
        }
        self.next_try = Some(Instant::now() + self.again.max(PARTS * began.elapsed()));
        Ok(())
    }
}
