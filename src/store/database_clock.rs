//! The database's clock, by the monotonic clock of this process: what is held here ends by it, and setting the clock of
//! this machine changes nothing.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{Store, StoreError, clock_estimate::ClockEstimate, database_time::DatabaseTime};

const SQL: &str = "SELECT clock_timestamp()";

/// What is known of the database's clock; nothing until it was read.
#[derive(Debug, Default)]
pub(crate) struct DatabaseClock {
    estimate: Mutex<Option<ClockEstimate>>,
    /// By how much it was set forward so far, in all.
    set_forward: Mutex<Duration>,
}

impl DatabaseClock {
    /// The first instant here at which it surely is `time` in the database; none where the clock was not read, or where
    /// that is out of reach.
    pub(crate) fn surely(&self, time: DatabaseTime) -> Option<Instant> {
        self.lock().as_ref()?.surely(time.as_micros())
    }

    /// Reads it.
    ///
    /// # Errors
    /// The database does not answer; what was known stays.
    pub(crate) async fn read(&self, store: &Store) -> Result<(), StoreError> {
        let reading = store.read_clock().await?;
        let mut estimate = self.lock();
        if let Some(by) = estimate.and_then(|known| known.set_forward(reading)) {
            *self.set_forward.lock().unwrap_or_else(PoisonError::into_inner) += by;
        }
        *estimate = Some(estimate.map_or(reading, |known| known.and(reading)));
        Ok(())
    }

    /// By how much it was set forward since it was read for the first time, in all.
    pub(crate) fn set_forward(&self) -> Duration {
        *self.set_forward.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lock(&self) -> MutexGuard<'_, Option<ClockEstimate>> {
        self.estimate.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Store {
    async fn read_clock(&self) -> Result<ClockEstimate, StoreError> {
        let reading = async {
            let client = self.cancellable().await?;
            let statement = self.named("clock", client.prepare_cached(SQL).await)?;
            let sent = Instant::now();
            let row = self.named("clock", client.query_one(&statement, &[]).await)?;
            let received = Instant::now();
            client.done();
            let there: DatabaseTime = row.get(0);
            Ok(ClockEstimate::of_reading(sent, received, there.as_micros()))
        };
        self.attended(Box::pin(reading)).await
    }
}
