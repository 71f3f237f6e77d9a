//! A point in time as PostgreSQL has it, far dates and `infinity` included: the calendar types of Rust end long before.

use std::{error::Error, fmt, str::FromStr, time::Duration};

use jiff::Timestamp;
use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// 2000-01-01 in UTC, since 1970.
const EPOCH_US: i64 = 946_684_800_000_000;

/// Microseconds since 2000-01-01 in UTC; `infinity` and `-infinity` are the ends of the range.
///
/// <https://www.postgresql.org/docs/current/datatype-datetime.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DatabaseTime(i64);

impl DatabaseTime {
    /// `-infinity`: before every order.
    pub(crate) const FIRST: Self = Self(i64::MIN);

    /// Microseconds since 2000-01-01 in UTC.
    pub(crate) const fn as_micros(self) -> i64 {
        self.0
    }

    /// See [`DatabaseTime::as_micros`].
    pub(crate) const fn from_micros(us: i64) -> Self {
        Self(us)
    }

    /// Whole milliseconds since 1970; 0 before.
    pub(crate) fn to_unix_ms(self) -> u64 {
        u64::try_from(self.0.saturating_add(EPOCH_US) / 1_000).unwrap_or(0)
    }

    /// From milliseconds since 1970.
    pub(crate) fn from_unix_ms(ms: u64) -> Self {
        let us = i64::try_from(ms).unwrap_or(i64::MAX).saturating_mul(1_000);
        Self(us.saturating_sub(EPOCH_US))
    }

    /// The same as a time of the calendar; none for `infinity` and what is outside the years -9999 to 9999.
    pub(crate) fn timestamp(self) -> Option<Timestamp> {
        Timestamp::from_microsecond(self.0.checked_add(EPOCH_US)?).ok()
    }

    /// As people read it, to the second.
    pub(crate) fn to_second(self) -> String {
        let second = self.timestamp().and_then(|it| Timestamp::from_second(it.as_second()).ok());
        second.map_or_else(|| self.to_string(), |second| second.to_string())
    }

    /// So long after.
    pub(crate) fn after(self, time: Duration) -> Self {
        Self(self.0.saturating_add(i64::try_from(time.as_micros()).unwrap_or(i64::MAX)))
    }

    /// So long before.
    pub(crate) fn before(self, ago: Duration) -> Self {
        Self(self.0.saturating_sub(i64::try_from(ago.as_micros()).unwrap_or(i64::MAX)))
    }

    /// From here to `later`: zero where that is before, 292,000 years where it is farther than that.
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

impl FromStr for DatabaseTime {
    type Err = jiff::Error;

    fn from_str(text: &str) -> Result<Self, jiff::Error> {
        match text {
            "-infinity" => Ok(Self::FIRST),
            "infinity" => Ok(Self(i64::MAX)),
            _ => text.parse::<Timestamp>().map(Self::from),
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
    fn what_is_printed_is_read_again() {
        for us in [0, 1, -1, 1_500_000, -230_000_000_000_000_000, i64::MIN, i64::MAX] {
            let time = DatabaseTime(us);
            assert_eq!(time.to_string().parse::<DatabaseTime>().unwrap(), time, "{time}");
        }
        assert!("soon".parse::<DatabaseTime>().is_err());
    }
}
