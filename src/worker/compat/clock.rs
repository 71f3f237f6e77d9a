//! The database's clock, read once and counted on from there: all workers have the same.

use std::time::{Duration, Instant};

use crate::store::{Store, StoreError};

/// What the clock said between two instants of this machine. Which of them counts is chosen so that nothing is early.
pub(super) struct Clock {
    before: Instant,
    after: Instant,
    read_ms: u64,
}

impl Clock {
    /// Asks the database.
    pub(super) async fn read(store: &Store) -> Result<Self, StoreError> {
        let before = Instant::now();
        let read_ms = store.now_ms().await?;
        Ok(Self { before, after: Instant::now(), read_ms })
    }

    /// Milliseconds since 1970 when `delay` is surely over.
    pub(super) fn after(&self, delay: Duration) -> u64 {
        let whole = self.before.elapsed() + delay + Duration::from_millis(1);
        self.read_ms.saturating_add(u64::try_from(whole.as_millis()).unwrap_or(u64::MAX))
    }

    /// How long it is until `due_ms`, at most.
    pub(super) fn until(&self, due_ms: u64) -> Duration {
        let due = Duration::from_millis(due_ms.saturating_sub(self.read_ms));
        due.saturating_sub(self.after.elapsed())
    }
}
