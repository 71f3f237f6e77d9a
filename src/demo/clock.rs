//! The database's clock, read from here: deadlines and payments are times of the database.

use std::time::{Duration, Instant};

use jiff::Timestamp;

use crate::store::{Store, StoreError};

/// Readings taken; the one with the shortest round trip is the most exact.
const READINGS: usize = 7;

/// One instant on both clocks. Both run equally fast; a run is too short for them to drift apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Clock {
    here: Instant,
    there: Timestamp,
}

impl Clock {
    /// A clock that shows `there` when it is `here`.
    #[must_use]
    pub(crate) const fn new(here: Instant, there: Timestamp) -> Self {
        Self { here, there }
    }

    /// Reads the database's clock; exact to half of the shortest round trip.
    pub(super) async fn read(store: &Store) -> Result<Self, StoreError> {
        const SQL: &str = "SELECT clock_timestamp()";
        let client = store.client().await?;
        let statement = store.named("clock", client.prepare_cached(SQL).await)?;
        let mut best: Option<(Duration, Self)> = None;
        for _ in 0..READINGS {
            let asked = Instant::now();
            let row = store.named("clock", client.query_one(&statement, &[]).await)?;
            let took = asked.elapsed();
            if best.as_ref().is_none_or(|(shortest, _)| took < *shortest) {
                best = Some((took, Self::new(asked + took / 2, row.get(0))));
            }
        }
        Ok(best
            .map_or_else(|| Self::new(Instant::now(), Timestamp::UNIX_EPOCH), |(_, clock)| clock))
    }

    /// When it is `time` in the database, by the clock of this process.
    #[must_use]
    pub(crate) fn instant(&self, time: Timestamp) -> Instant {
        let apart = time.duration_since(self.there).unsigned_abs();
        if time >= self.there {
            self.here + apart
        } else {
            self.here.checked_sub(apart).unwrap_or(self.here)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_before_and_after_the_reading_are_as_far_away_here() {
        let here = Instant::now() + Duration::from_secs(100);
        let there: Timestamp = "2026-11-20T10:30:00Z".parse().unwrap();
        let clock = Clock::new(here, there);
        let later: Timestamp = "2026-11-20T10:30:01.5Z".parse().unwrap();
        let earlier: Timestamp = "2026-11-20T10:29:59.75Z".parse().unwrap();
        assert_eq!(clock.instant(later), here + Duration::from_millis(1_500));
        assert_eq!(clock.instant(earlier) + Duration::from_millis(250), here);
    }
}
