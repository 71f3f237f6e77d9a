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

    /// By how many microseconds the other clock was set before another reading, forward or back; 0 if the two agree.
    #[must_use]
    pub fn step_us(self, newer: Self) -> i64 {
        let step = newer.there_us.saturating_sub(self.expected_us(newer));
        if self.contradicts(newer) { step } else { 0 }
    }

    /// Whether this is a reading from before another one.
    #[must_use]
    pub fn is_older(self, other: Self) -> bool {
        self.here < other.here
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

    /// What it is at the most on the other clock at an instant here, in microseconds.
    #[must_use]
    pub fn at_most_us(self, at: Instant) -> i64 {
        let passed = at.saturating_duration_since(self.here) + self.error_at(at);
        self.there_us.saturating_add(i64::try_from(passed.as_micros()).unwrap_or(i64::MAX))
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

/// Smaller steps are what a machine does to keep its clock right.
const LEAST_LEAP: Duration = Duration::from_secs(1);
/// A leap is believed after this long, if the clock was not set back: a person who was paged has looked at the clock by then. If
/// the clock is right now, orders that no message came for are closed by as much as it was wrong later until then.
pub const LEAP_BELIEVED_AFTER: Duration = Duration::from_hours(1);

/// How far a clock was set forward that is not believed yet: this machine's clock, which nobody sets, contradicts it.
#[derive(Clone, Copy, Debug, Default)]
pub struct Leap {
    by: Duration,
    since: Option<Instant>,
}

impl Leap {
    /// The clock was set by so many microseconds, forward or back. Whether that is a leap forward.
    pub fn step(&mut self, step_us: i64, now: Instant) -> bool {
        let (step, before) = (Duration::from_micros(step_us.unsigned_abs()), self.at(now));
        if step < LEAST_LEAP {
            return false;
        }
        let is_forward = step_us > 0;
        self.by = if is_forward { before + step } else { before.saturating_sub(step) };
        if is_forward {
            self.since = Some(now);
        }
        is_forward
    }

    /// How far the clock is ahead of what is believed.
    #[must_use]
    pub fn at(&self, now: Instant) -> Duration {
        let is_new = |since| now.saturating_duration_since(since) < LEAP_BELIEVED_AFTER;
        if self.since.is_some_and(is_new) { self.by } else { Duration::ZERO }
    }
}
