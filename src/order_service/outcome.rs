//! The outcome of the orders of a run, and the invariants of the run.

use std::{fmt, time::Duration};

use serde::Serialize;
use tokio_postgres::{Row, types::ToSql};

use super::{OrderService, STOCK};
use crate::store::StoreError;

/// Percentiles of the lateness of orders, in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it, with their unit")]
pub(crate) struct Percentiles {
    pub p50_ms: f64,
    pub p99_ms: f64,
    pub max_ms: f64,
}

/// The outcome of the orders of a run, without its last one.
#[derive(Clone, Debug, PartialEq, Serialize)]
#[allow(missing_docs, reason = "the names say it, with their unit")]
pub(crate) struct Outcome {
    pub orders: u64,
    pub paid: u64,
    /// Orders whose payment came after the deadline, but before overdue closed them.
    pub paid_late: u64,
    /// The highest lateness of these payments.
    pub paid_late_max_ms: f64,
    pub closed: u64,
    pub closed_by_message: u64,
    pub closed_in_burst: u64,
    pub closed_by_sweep: u64,
    /// The rate from the first closing to the last.
    pub closed_per_s: f64,
    pub still_unpaid: u64,
    /// Time from the deadline to the final state; `None` if no order was closed.
    pub lateness: Option<Percentiles>,
    /// Whether an order counts as final with its commit; otherwise with the statement before.
    pub lateness_by_commit: bool,
}

/// An invariant, and whether it holds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Invariant {
    /// The rule.
    pub what: String,
    /// Rows that break the rule.
    pub broken: u64,
    /// An example of such a row, and its fault.
    pub example: Option<String>,
}

/// An answer that the order service got about an order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OrderAnswer {
    pub order: String,
    /// `created`, `taken` or `refused`.
    pub answer: &'static str,
}

impl OrderService {
    /// The outcome of the orders of the run.
    pub(crate) async fn outcome(&self) -> Result<Outcome, StoreError> {
        const SQL: &str = include_str!("../../sql/service_outcome.sql");
        let ids = format!("{}-", self.run);
        Ok(Outcome::of(&self.store.one("service_outcome", SQL, &[&ids]).await?))
    }

    /// Checks every invariant of the run. `finished`: every order has had the time to become final.
    pub(crate) async fn invariants(
        &self,
        finished: bool,
        answers: &[OrderAnswer],
    ) -> Result<Vec<Invariant>, StoreError> {
        const SQL: &str = include_str!("../../sql/invariants.sql");
        let (ids, answers): (Vec<&str>, Vec<&str>) =
            answers.iter().map(|OrderAnswer { order, answer }| (order.as_str(), *answer)).unzip();
        let parameters: [&(dyn ToSql + Sync); 5] = [&self.run.0, &STOCK, &finished, &ids, &answers];
        let rows = self.store.rows("invariants", SQL, &parameters).await?;
        let invariant = |row: &Row| Invariant {
            what: row.get("what"),
            broken: number(row, "broken"),
            example: row.get("example"),
        };
        Ok(rows.iter().map(invariant).collect())
    }
}

impl Outcome {
    fn of(row: &Row) -> Self {
        let closed = number(row, "closed");
        let lateness = || {
            Some(Percentiles {
                p50_ms: ms(row.get::<_, Option<i64>>("p50_us")?),
                p99_ms: ms(row.get::<_, Option<i64>>("p99_us")?),
                max_ms: ms(row.get::<_, Option<i64>>("max_us")?),
            })
        };
        let closing = Duration::from_micros(number(row, "closing_us"));
        Self {
            orders: number(row, "orders"),
            paid: number(row, "paid"),
            paid_late: number(row, "paid_late"),
            paid_late_max_ms: ms(row.get("paid_late_us")),
            closed,
            closed_by_message: number(row, "by_message"),
            closed_in_burst: number(row, "by_burst"),
            closed_by_sweep: number(row, "by_sweep"),
            closed_per_s: per_second(closed, closing),
            still_unpaid: number(row, "unpaid"),
            lateness: lateness(),
            lateness_by_commit: row.get("commit_times"),
        }
    }
}

impl fmt::Display for Invariant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { what, broken, example } = self;
        match example {
            None => write!(f, "holds: {what}"),
            Some(example) => write!(f, "BROKEN by {broken}: {what}, e.g. {example}"),
        }
    }
}

/// A rate per second, rounded to a whole number; 0 if no time has passed.
pub(crate) fn per_second(number: u64, took: Duration) -> f64 {
    let number = u32::try_from(number).map_or(f64::MAX, f64::from);
    if took.is_zero() { 0.0 } else { (number / took.as_secs_f64()).round() }
}

fn number(row: &Row, column: &str) -> u64 {
    row.get::<_, i64>(column).unsigned_abs()
}

/// Milliseconds, rounded to tenths.
fn ms(micros: i64) -> f64 {
    let tenths = i32::try_from(micros / 100).map_or(f64::MAX, f64::from);
    tenths / 10.0
}
