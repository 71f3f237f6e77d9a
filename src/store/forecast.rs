//! What the next hours bring, and how the last one was.

use std::{collections::BTreeMap, time::Duration};

use tokio_postgres::{Row, types::ToSql};

use super::{
    Store, StoreError,
    clock::DatabaseTime,
    orders::Effect,
    pool::{End, For, Question, TransactionLimits, count},
};
use crate::status::{ClosingRate, DueSoon, Known, LastHour, Lateness};

/// Where counting orders that come due ends: what is counted is read, about a second.
const MOST_DUE: i64 = 1_000_000;
/// Millions of closures in an hour take some seconds to sort.
const LIMITS: TransactionLimits =
    TransactionLimits { lock: None, statement: Some(Duration::from_secs(10)) };

impl Store {
    /// The lateness of the last hour, what was closed per minute, and how fast orders were closed.
    ///
    /// # Errors
    /// `closures` is missing, or the right to read it, or the database cannot be asked or takes longer than 10 s.
    pub async fn last_hour(&self) -> Result<LastHour, StoreError> {
        const SQL: &str = include_str!("../../sql/last_hour.sql");
        let question = Question::new("last_hour", SQL, &[]);
        let rows = self.in_transaction(For::Anything, LIMITS, question, End::Rollback).await?;
        let of =
            |kind: &'static str| rows.iter().filter(move |row| row.get::<_, &str>("kind") == kind);
        let most =
            |kind: &'static str| of(kind).map(|row| count(row, "orders")).next().unwrap_or(0);
        let by_path = of("path").map(|row| (row.get("key"), lateness(row)));
        let minute = |row: &Row| {
            let ago = row.get::<_, &str>("key").parse().unwrap_or(0);
            (ago, count(row, "orders"))
        };
        let rate = ClosingRate::of(most("late_second"), most("second"));
        let all = of("all").map(lateness).next().unwrap_or_default();
        Ok(LastHour::new(all, by_path.collect(), of("minute").map(minute), rate))
    }

    /// The orders of these effects that come due in the next `hours`, up to a million of each, and the largest bursts with the
    /// lateness that `rate` predicts; not known where an effect has no `overdue_sql`.
    ///
    /// # Errors
    /// The database cannot be asked, or takes longer than 10 s.
    pub async fn due_soon<'a>(
        &self,
        effects: impl IntoIterator<Item = &'a Effect>,
        hours: u32,
        rate: ClosingRate,
    ) -> Result<Known<DueSoon>, StoreError> {
        const SQL: &str = include_str!("../../sql/due_soon.sql");
        let ahead = -i64::from(hours) * 3_600_000;
        let (mut seconds, mut more) = (BTreeMap::new(), false);
        for effect in effects {
            let parameters: [&(dyn ToSql + Sync); 4] =
                [&MOST_DUE, &ahead, &DatabaseTime::FIRST, &""];
            let rows = self.around_overdue("due_soon", SQL, effect, &parameters, LIMITS).await?;
            let Some(rows) = rows else {
                return Ok(Known::Unknown(format!("effect `{}` has no overdue_sql", effect.name)));
            };
            let mut counted = 0;
            for row in &rows {
                let orders = count(row, "orders");
                counted += orders;
                *seconds.entry(row.get("second")).or_default() += orders;
            }
            more |= counted >= MOST_DUE.unsigned_abs();
        }
        Ok(Known::Known(DueSoon::new(hours, &seconds, more, rate)))
    }
}

fn lateness(row: &Row) -> Lateness {
    Lateness {
        orders: count(row, "orders"),
        p50_s: row.get("p50_s"),
        p99_s: row.get("p99_s"),
        max_s: row.get("max_s"),
    }
}
