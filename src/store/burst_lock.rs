//! The lock of a burst: one worker at a time closes the burst of an effect.

use std::sync::Arc;

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::{Store, StoreError, pool::Cancellable};

const LOCK: &str = include_str!("../../sql/burst_lock.sql");
/// A worker that was paused or cut off loses the lock.
const BEGIN: &str = "BEGIN; SET LOCAL idle_in_transaction_session_timeout = '20s'";
/// Connections that locks leave to others: one for a relay, which keeps it while it publishes, and one for whatever is short.
const LEFT: usize = 2;

/// What came of asking for the lock.
pub(crate) enum Locked<'a> {
    /// It is this burst's.
    Taken(Box<BurstLock<'a>>),
    /// Another burst has it: one of another worker, or of another effect of this worker that leaves no connection.
    ByAnother {
        /// Whether it has closed orders in the last half second.
        moves: bool,
    },
}

/// A transaction that holds the lock. Between two statements it has neither a snapshot nor an id, so it holds up no vacuum.
pub(crate) struct BurstLock<'a> {
    store: &'a Store,
    client: Cancellable,
    _permit: OwnedSemaphorePermit,
}

/// As many locks as the pool that does not close has connections to spare.
pub(super) fn permits(connections: usize) -> Arc<Semaphore> {
    Arc::new(Semaphore::new(connections.saturating_sub(LEFT)))
}

impl Store {
    /// Asks for the lock of an effect, without waiting for it.
    ///
    /// # Errors
    /// The database is unavailable.
    pub(crate) async fn lock_burst(&self, effect: &str) -> Result<Locked<'_>, StoreError> {
        let Ok(permit) = Arc::clone(&self.burst_locks).try_acquire_owned() else {
            return Ok(Locked::ByAnother { moves: false });
        };
        let locking = async {
            let client = self.cancellable().await?;
            let lock = self.named("burst_lock", client.prepare_cached(LOCK).await)?;
            self.named("burst_lock", client.batch_execute(BEGIN).await)?;
            let row = self.named("burst_lock", client.query_one(&lock, &[&effect]).await)?;
            Ok((client, row))
        };
        let (client, row) = self.attended(Box::pin(locking)).await?;
        let lock = BurstLock { store: self, client, _permit: permit };
        if row.get("is_taken") {
            return Ok(Locked::Taken(Box::new(lock)));
        }
        lock.release().await?;
        Ok(Locked::ByAnother { moves: row.get("moves") })
    }
}

impl BurstLock<'_> {
    /// Orders were closed: other workers see it, and go on waiting.
    ///
    /// # Errors
    /// The connection is gone, and with it the lock.
    pub(crate) async fn moved(&self) -> Result<(), StoreError> {
        self.run("SELECT").await
    }

    /// Another burst may take it.
    ///
    /// # Errors
    /// The connection is gone, and with it the lock.
    pub(crate) async fn release(self) -> Result<(), StoreError> {
        self.run("COMMIT").await?;
        self.client.done();
        Ok(())
    }

    async fn run(&self, sql: &str) -> Result<(), StoreError> {
        let Self { store, client, .. } = self;
        let running = async { store.named("burst_lock", client.batch_execute(sql).await) };
        store.attended(Box::pin(running)).await
    }
}
