//! What became of a load: how late, in which way, and what is wrong.

use std::time::Duration;

use serde::Serialize;
use tokio_postgres::Row;

use super::{Load, tables::SPARE};
use crate::{
    statistics::Percentiles,
    store::{Store, StoreError},
};

/// From the deadline to the commit.
pub(crate) type Late = Percentiles;

/// Orders that were closed in one way.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct PathCount {
    /// As `closures.path` has it.
    pub path: String,
    /// How many.
    pub orders: i64,
}

/// What a contestant was to do.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Expected<'a> {
    /// All of these orders are closed.
    pub load: &'a Load,
    /// Each with a row in `closures`; the tutorial writes none.
    pub audited: bool,
    /// Whether lateness ends with the commit; otherwise with the statement.
    pub commit_times: bool,
}

/// What became of a load.
#[derive(Clone, Debug, Default)]
pub(crate) struct Outcome {
    /// Of those that were closed.
    pub late: Late,
    /// The ways in which they were closed.
    pub paths: Vec<PathCount>,
    /// What is wrong, for people.
    pub broken: Vec<String>,
}

impl Outcome {
    /// Looks at every order of the load, its closures, and all stock.
    ///
    /// # Errors
    /// A statement failed.
    pub(crate) async fn read(store: &Store, expected: Expected<'_>) -> Result<Self, StoreError> {
        const OUTCOME: &str = include_str!("../../../sql/bench_outcome.sql");
        const STOCK: &str = include_str!("../../../sql/bench_wrong_stock.sql");
        let client = store.client().await?;
        let prefix = expected.load.prefix.as_str();
        let row = client.query_one(OUTCOME, &[&prefix, &expected.commit_times]).await;
        let row = store.named("bench_outcome", row)?;
        let us = |column: &str| row.get::<_, Option<i64>>(column).unwrap_or_default();
        let late =
            Late { p50_ms: ms(us("p50_us")), p99_ms: ms(us("p99_us")), max_ms: ms(us("max_us")) };
        let mut outcome = Self { late, ..Self::default() };
        outcome.judge_orders(&row, expected);
        if expected.audited {
            outcome.read_paths(store, expected.load).await?;
        }
        let stock = client.query_one(STOCK, &[&SPARE]).await;
        let stock = store.named("bench_wrong_stock", stock)?;
        let wrong: i64 = stock.get("wrong");
        if wrong > 0 {
            let example: String = stock.get("example");
            outcome.broken.push(format!("the stock of {wrong} SKUs is wrong, e.g. of {example}"));
        }
        Ok(outcome)
    }

    async fn read_paths(&mut self, store: &Store, load: &Load) -> Result<(), StoreError> {
        const PATHS: &str = include_str!("../../../sql/bench_paths.sql");
        let client = store.client().await?;
        let rows = store.named("bench_paths", client.query(PATHS, &[&load.prefix]).await)?;
        let path = |row: &Row| PathCount { path: row.get("path"), orders: row.get("orders") };
        self.paths = rows.iter().map(path).collect();
        Ok(())
    }

    fn judge_orders(&mut self, row: &Row, expected: Expected<'_>) {
        let all = i64::try_from(expected.load.orders.len()).unwrap_or(i64::MAX);
        let number = |column: &str| row.get::<_, i64>(column);
        let (orders, closed) = (number("orders"), number("closed"));
        if orders != all {
            self.broken.push(format!("{orders} of {all} orders are there"));
        }
        if closed != all {
            self.broken.push(format!("{closed} of {all} orders are closed"));
        }
        let early = number("early");
        if early > 0 {
            self.broken.push(format!("{early} orders were closed before their deadline"));
        }
        let not_once = number("not_once");
        if expected.audited && not_once > 0 {
            self.broken.push(format!("{not_once} orders were closed more or less than once"));
        }
    }
}

/// Milliseconds with two decimals.
fn ms(us: i64) -> f64 {
    let us = u64::try_from(us).unwrap_or(0);
    (Duration::from_micros(us).as_secs_f64() * 100_000.0).round() / 100.0
}
