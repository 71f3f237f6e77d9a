//! A point in time as PostgreSQL has it, far dates and `infinity` included: the calendar types of Rust end long before.

use std::{error::Error, time::Duration};

use tokio_postgres::types::{FromSql, IsNull, ToSql, Type, to_sql_checked};

/// Microseconds since 2000-01-01 in UTC; `infinity` and `-infinity` are the ends of the range.
///
/// <https://www.postgresql.org/docs/current/datatype-datetime.html>
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct DatabaseTime(i64);

impl DatabaseTime {
    /// `-infinity`: before every order.
    pub(crate) const FIRST: Self = Self(i64::MIN);

    /// From here to `later`: zero where that is before, 292,000 years where it is farther than that.
    pub(crate) fn until(self, later: Self) -> Duration {
        Duration::from_micros(u64::try_from(later.0.saturating_sub(self.0)).unwrap_or(0))
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
        assert!(DatabaseTime::FIRST < at(i64::MIN + 1));
    }
}
