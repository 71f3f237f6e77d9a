//! The database's clock, by the monotonic clock of this process: what is held here ends by it, and setting the clock of
//! this machine changes nothing.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::{Duration, Instant},
};

use super::{
    Store, StoreError,
    clock_estimate::{ClockEstimate, Leap},
    database_time::DatabaseTime,
};

const SQL: &str = "SELECT clock_timestamp()";

/// What is known of the database's clock; nothing until it was read.
#[derive(Debug, Default)]
pub(crate) struct DatabaseClock {
    estimate: Mutex<Option<ClockEstimate>>,
    /// By how much it was set forward so far, in all.
    set_forward: Mutex<Duration>,
    leap: Mutex<Leap>,
}

impl DatabaseClock {
    /// The first instant here at which it surely is `time` in the database; none where the clock was not read, or where
    /// that is out of reach.
    pub(crate) fn surely(&self, time: DatabaseTime) -> Option<Instant> {
        lock(&self.estimate).as_ref()?.surely(time.as_micros())
    }

    /// Milliseconds since 1970 that it is in the database at the most, at an instant here; none where the clock was not read.
    pub(crate) fn at_most_ms(&self, at: Instant) -> Option<u64> {
        let at_most = DatabaseTime::from_micros(lock(&self.estimate).as_ref()?.at_most_us(at));
        Some(at_most.to_unix_ms() + 1)
    }

    /// Reads it. How far it is ahead of what is believed, if it has just leapt forward.
    ///
    /// # Errors
    /// The database does not answer; what was known stays.
    pub(crate) async fn read(&self, store: &Store) -> Result<Option<Duration>, StoreError> {
        let reading = store.read_clock().await?;
        let mut estimate = lock(&self.estimate);
        let known = estimate.unwrap_or(reading);
        // Two tasks read it at the same time.
        if reading.is_older(known) {
            return Ok(None);
        }
        *estimate = Some(known.and(reading));
        let (step_us, now) = (known.step_us(reading), Instant::now());
        *lock(&self.set_forward) += Duration::from_micros(u64::try_from(step_us).unwrap_or(0));
        let mut leap = lock(&self.leap);
        Ok(leap.step(step_us, now).then(|| leap.at(now)))
    }

    /// By how much it was set forward since it was read for the first time, in all.
    pub(crate) fn set_forward(&self) -> Duration {
        *lock(&self.set_forward)
    }

    /// How far it is ahead of what is believed: for so long after their deadline by it orders are left to their messages, whose
    /// delays are the broker's.
    pub(crate) fn leap(&self, now: Instant) -> Duration {
        lock(&self.leap).at(now)
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
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
