//! The database's clock, beside the one that measures here.

use std::time::{Duration, Instant};

use crate::store::{Store, StoreError};

/// The shortest round trip of so many says it best.
const READINGS: usize = 5;

/// What the database's clock says at an instant of this process.
#[derive(Clone, Copy, Debug)]
pub(crate) struct DatabaseClock {
    us: i64,
    at: Instant,
}

impl DatabaseClock {
    /// Asks the database; right to half of a round trip.
    ///
    /// # Errors
    /// It does not answer.
    pub(crate) async fn read(store: &Store) -> Result<Self, StoreError> {
        const SQL: &str = include_str!("../../../sql/bench_clock.sql");
        let client = store.client().await?;
        let statement = store.named("bench_clock", client.prepare_cached(SQL).await)?;
        let mut best: Option<(Duration, Self)> = None;
        for _ in 0..READINGS {
            let sent = Instant::now();
            let row = store.named("bench_clock", client.query_one(&statement, &[]).await)?;
            let took = sent.elapsed();
            if best.is_none_or(|(shortest, _)| took < shortest) {
                best = Some((took, Self { us: row.get(0), at: sent + took / 2 }));
            }
        }
        Ok(best.map_or(Self { us: 0, at: Instant::now() }, |(_, clock)| clock))
    }

    /// Microseconds since 1970 `from_now`.
    pub(crate) fn us_in(&self, from_now: Duration) -> i64 {
        let since = Instant::now().saturating_duration_since(self.at) + from_now;
        self.us.saturating_add(i64::try_from(since.as_micros()).unwrap_or(i64::MAX))
    }

    /// The instant here at which the database's clock says so many microseconds since 1970; of the past, the earliest known.
    pub(crate) fn instant(&self, us: i64) -> Instant {
        let since = u64::try_from(us.saturating_sub(self.us)).unwrap_or(0);
        self.at + Duration::from_micros(since)
    }
}
