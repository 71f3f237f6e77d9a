//! What one clock shows when it is read from afar: how far off the reading can be, and whether the clock was set since.

use std::time::{Duration, Instant};

/// Two clocks that nobody sets run apart by less than this part of the time: 50 µs per second, as NTP keeps them.
const DRIFT: u32 = 20_000;
/// PostgreSQL counts in microseconds.
const GRAIN: Duration = Duration::from_micros(1);

/// The time on another machine, as a reading shows it: exact to half of the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockEstimate {
    here: Instant,
    /// In microseconds, since whenever the other clock counts.
    there_us: i64,
    error: Duration,
}

impl ClockEstimate {
    /// From an answer that said `there_us`, to a question that was sent and answered at these times.
    #[must_use]
    pub fn of_reading(sent: Instant, received: Instant, there_us: i64) -> Self {
        let half = received.saturating_duration_since(sent) / 2;
        Self { here: sent + half, there_us, error: half + GRAIN }
    }

    /// What is best known after another reading. One that contradicts this one says that a clock was set.
    #[must_use]
    pub fn and(self, newer: Self) -> Self {
        if self.contradicts(newer) || newer.error <= self.error_at(newer.here) {
            newer
        } else {
            self
        }
    }

    /// How far the other clock was set forward before another reading; none where the two agree.
    #[must_use]
    pub fn set_forward(self, newer: Self) -> Option<Duration> {
        let is_ahead = self.expected_us(newer) < newer.there_us;
        (is_ahead && self.contradicts(newer)).then(|| self.apart(newer))
    }

    fn contradicts(self, newer: Self) -> bool {
        self.apart(newer) > self.error_at(newer.here) + newer.error
    }

    /// The first instant here at which it surely is `there_us` on the other clock; none where that is out of reach.
    #[must_use]
    pub fn surely(self, there_us: i64) -> Option<Instant> {
        let away_us = there_us.checked_sub(self.there_us)?;
        let away = Duration::from_micros(away_us.unsigned_abs());
        let error = self.error + away / DRIFT;
        match away_us {
            0.. => self.here.checked_add(away)?.checked_add(error),
            _ => self.here.checked_add(error)?.checked_sub(away),
        }
    }

    /// How far this reading, carried on until then, is from the other one.
    fn apart(self, newer: Self) -> Duration {
        Duration::from_micros(self.expected_us(newer).abs_diff(newer.there_us))
    }

    /// What the other one would say if nobody had set that clock.
    fn expected_us(self, newer: Self) -> i64 {
        let passed = newer.here.saturating_duration_since(self.here);
        let passed_us = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        self.there_us.saturating_add(passed_us)
    }

    fn error_at(self, now: Instant) -> Duration {
        self.error + now.saturating_duration_since(self.here) / DRIFT
    }
}
