//! The database's clock: a time of PostgreSQL, the accuracy with which its clock is known here, and whether it was set.
//!
//! Waits end by the monotonic clock of this process, so they do not depend on the wall clock of this machine.

use std::{
    error::Error,
    fmt,
    ops::Range,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use parking_lot::Mutex;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

use super::{Store, StoreError};

/// 2000-01-01 in UTC, in microseconds since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;

/// Microseconds since 2000-01-01 in UTC; `infinity` and `-infinity` are the ends of the range.
///
/// <https://www.postgresql.org/docs/current/datatype-datetime.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DatabaseTime(i64);

impl DatabaseTime {
    /// `-infinity`: before every deadline.
    pub(crate) const FIRST: Self = Self(i64::MIN);

    pub(crate) fn from_unix_ms(ms: u64) -> Self {
        let us = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000);
        Self(us.saturating_sub(EPOCH_US))
    }

    /// `None` for `infinity` and for times outside the years -9999 to 9999.
    pub(crate) fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.0.checked_add(EPOCH_US)?).ok()
    }

    /// Text for people, to the second.
    pub(crate) fn to_second(self) -> String {
        let second = self.timestamp().and_then(|it| Timestamp::from_second(it.as_second()).ok());
        second.map_or_else(|| self.to_string(), |second| second.to_string())
    }

    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    pub(crate) fn before(self, ago: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(ago.as_micros()).unwrap_or(i64::MAX)))
    }

    /// Milliseconds by which this time is after `other`; negative if it is before.
    pub(super) const fn ms_after(self, other: Self) -> i64 {
        self.0.saturating_sub(other.0) / 1_000
    }

    /// Time until `later`: zero if that is earlier, 292,000 years if it is farther away.
    pub(crate) fn until(self, later: Self) -> Duration {
        Duration::from_micros(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
    }
}

impl From<Timestamp> for DatabaseTime {
    fn from(time: Timestamp) -> Self {
        Self(time.as_microsecond() - EPOCH_US)
    }
}

impl fmt::Display for DatabaseTime {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.timestamp() {
            Some(time) => time.fmt(f),
            None => f.write_str(if self.0 < 0 { "-infinity" } else { "infinity" }),
        }
    }
}

impl<'a> FromSql<'a> for DatabaseTime {
    fn from_sql(ty: &Type, raw: &'a [u8]) -> Result<Self, Box<dyn Error + Sync + Send>> {
        i64::from_sql(ty, raw).map(Self)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }
}

impl ToSql for DatabaseTime {
    fn to_sql(
        &self,
        ty: &Type,
        out: &mut tokio_postgres::types::private::BytesMut,
    ) -> Result<IsNull, Box<dyn Error + Sync + Send>> {
        self.0.to_sql(ty, out)
    }

    fn accepts(ty: &Type) -> bool {
        *ty == Type::TIMESTAMPTZ
    }

    to_sql_checked!();
}

/// A duration as a parameter of a statement, in milliseconds.
pub(super) fn to_ms(time: Duration) -> i64 {
    i64::try_from(time.as_millis()).unwrap_or(i64::MAX)
}

/// Two clocks that are not set drift apart by less than this part of the time: 50 µs per second, as NTP keeps them.
const DRIFT: u32 = 20_000;
/// PostgreSQL counts time in microseconds.
const GRAIN: Duration = Duration::from_micros(1);

/// The time on another machine, from one reading: exact to half of the round trip.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClockEstimate {
    here: Instant,
    /// In microseconds, from any epoch of the other clock.
    there_us: i64,
    error: Duration,
}

impl ClockEstimate {
    /// A reading: a query was sent and answered at these times, and its answer is `there_us`.
    pub fn of_reading(sent: Instant, received: Instant, there_us: i64) -> Self {
        let half = received.saturating_duration_since(sent) / 2;
        Self { here: sent + half, there_us, error: half + GRAIN }
    }

    /// The more exact of two readings. If the two contradict each other, a clock was set, and the newer one is returned.
    pub fn and(self, newer: Self) -> Self {
        if self.contradicts(newer) || newer.error <= self.error_at(newer.here) {
            newer
        } else {
            self
        }
    }

    /// Microseconds by which the other clock was set before the newer reading, negative if back; 0 if the two agree.
    pub fn step_us(self, newer: Self) -> i64 {
        let step = newer.there_us.saturating_sub(self.expected_us(newer));
        if self.contradicts(newer) { step } else { 0 }
    }

    /// Whether this reading was made before the other one.
    pub fn is_older(self, other: Self) -> bool {
        self.here < other.here
    }

    fn contradicts(self, newer: Self) -> bool {
        self.apart(newer) > self.error_at(newer.here) + newer.error
    }

    /// The first instant here at which the other clock has certainly reached `there_us`; `None` if that is out of range.
    pub fn surely(self, there_us: i64) -> Option<Instant> {
        let away_us = there_us.checked_sub(self.there_us)?;
        let away = Duration::from_micros(away_us.unsigned_abs());
        let error = self.error + away / DRIFT;
        match away_us {
            0.. => self.here.checked_add(away)?.checked_add(error),
            _ => self.here.checked_add(error)?.checked_sub(away),
        }
    }

    /// The latest time that the other clock can show at an instant here, in microseconds.
    pub fn at_most_us(self, at: Instant) -> i64 {
        let passed = at.saturating_duration_since(self.here) + self.error_at(at);
        self.there_us.saturating_add(i64::try_from(passed.as_micros()).unwrap_or(i64::MAX))
    }

    /// Difference between the other reading and this one, extrapolated to the same instant.
    fn apart(self, newer: Self) -> Duration {
        Duration::from_micros(self.expected_us(newer).abs_diff(newer.there_us))
    }

    /// The time of the newer reading if the other clock was not set.
    fn expected_us(self, newer: Self) -> i64 {
        let passed = newer.here.saturating_duration_since(self.here);
        let passed_us = i64::try_from(passed.as_micros()).unwrap_or(i64::MAX);
        self.there_us.saturating_add(passed_us)
    }

    fn error_at(self, now: Instant) -> Duration {
        self.error + now.saturating_duration_since(self.here) / DRIFT
    }
}

/// Machines make smaller steps to keep their clocks right.
const LEAST_LEAP: Duration = Duration::from_secs(30);
/// After a leap forward the worker closes nothing without a message for this time. In this hour, a person who was paged can look
/// at the clock.
pub(crate) const WAITS_AFTER_LEAP: Duration = Duration::from_hours(1);

/// Readings of the database's clock; empty until the first reading.
#[derive(Debug, Default)]
pub(crate) struct DatabaseClock(Mutex<Readings>);

#[derive(Debug, Default)]
struct Readings {
    estimate: Option<ClockEstimate>,
    /// Sum of all steps forward.
    set_forward: Duration,
    /// When the last leap forward was seen, and its size; `None` if the clock was set back since.
    leapt: Option<(Instant, Duration)>,
}

impl Readings {
    /// Records that the clock was set by `step_us`, negative if back. Returns the size of a leap forward.
    fn step(&mut self, step_us: i64, now: Instant) -> Option<Duration> {
        self.set_forward += Duration::from_micros(u64::try_from(step_us).unwrap_or(0));
        let step = Duration::from_micros(step_us.unsigned_abs());
        if step <= LEAST_LEAP {
            return None;
        }
        self.leapt = (step_us > 0).then_some((now, step));
        self.leapt.map(|(_, by)| by)
    }

    fn leap(&self, now: Instant) -> Option<Duration> {
        let (at, by) = self.leapt?;
        (now.saturating_duration_since(at) < WAITS_AFTER_LEAP).then_some(by)
    }
}

impl DatabaseClock {
    /// The first instant here at which the database's clock has certainly reached `time`; `None` if the clock was not read, or if
    /// that is out of range.
    pub(crate) fn surely(&self, time: DatabaseTime) -> Option<Instant> {
        self.0.lock().estimate?.surely(time.0)
    }

    /// The latest time that the database's clock can show at an instant here, in milliseconds since 1970; `None` if it was not
    /// read.
    pub(crate) fn at_most_ms(&self, at: Instant) -> Option<u64> {
        let at_most = self.0.lock().estimate?.at_most_us(at);
        let ms = u64::try_from(at_most.saturating_add(EPOCH_US) / 1_000).unwrap_or(0);
        Some(ms + 1)
    }

    /// Reads the clock. Returns the size of a leap forward since the last reading. An error keeps the earlier readings.
    pub(crate) async fn read(&self, store: &Store) -> Result<Option<Duration>, StoreError> {
        let (there, Range { start, end }) = store.read_clock().await?;
        let reading = ClockEstimate::of_reading(start, end, there.0);
        let mut readings = self.0.lock();
        let known = readings.estimate.unwrap_or(reading);
        // Two tasks can read the clock at the same time.
        if reading.is_older(known) {
            return Ok(None);
        }
        readings.estimate = Some(known.and(reading));
        Ok(readings.step(known.step_us(reading), Instant::now()))
    }

    /// Sum of all steps forward since the first reading.
    pub(crate) fn set_forward(&self) -> Duration {
        self.0.lock().set_forward
    }

    /// Size of a leap forward in the last hour. During this hour orders are closed by their messages alone, whose delays are the
    /// broker's.
    pub(crate) fn leap(&self, now: Instant) -> Option<Duration> {
        self.0.lock().leap(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn far_dates_and_infinity_are_times_like_others() {
        let at = DatabaseTime;
        assert_eq!(at(0).until(at(5_000_000)), Duration::from_secs(5));
        assert_eq!(at(5).until(at(0)), Duration::ZERO);
        assert_eq!(at(-5).until(at(i64::MAX)), Duration::from_micros(i64::MAX.unsigned_abs()));
        assert_eq!(at(0).until(at(i64::MIN)), Duration::ZERO);
        assert_eq!(at(i64::MAX).until(at(i64::MAX)), Duration::ZERO);
        assert_eq!(at(5_000_000).before(Duration::from_secs(5)), at(0));
        assert_eq!(at(-5).before(Duration::MAX), DatabaseTime::FIRST);
        assert!(DatabaseTime::FIRST < at(i64::MIN + 1));
        let time: Timestamp = "2000-01-01T00:00:01.5Z".parse().unwrap();
        assert_eq!(DatabaseTime::from(time), at(1_500_000));
        assert_eq!(at(1_500_000).timestamp(), Some(time));
        assert_eq!(DatabaseTime::from_unix_ms(946_684_801_500), at(1_500_000));
        assert_eq!(at(0).after(Duration::from_millis(1_500)), at(1_500_000));
    }

    #[test]
    fn a_leap_forward_is_known_for_an_hour_or_until_the_clock_is_set_back() {
        const S: i64 = 1_000_000;
        let (now, mut readings) = (Instant::now(), Readings::default());
        let hour = now + WAITS_AFTER_LEAP;
        assert_eq!((readings.step(30 * S, now), readings.step(-31 * S, now)), (None, None));
        assert_eq!(readings.step(31 * S, now), Some(Duration::from_secs(31))); // data: of a clock
        assert_eq!((readings.step(S, now), readings.step(-S, now)), (None, None));
        assert!(readings.leap(now + WAITS_AFTER_LEAP / 2).is_some());
        assert!(readings.leap(hour).is_none());
        assert_eq!(readings.step(-31 * S, now), None);
        assert!(readings.leap(now).is_none());
    }
}
