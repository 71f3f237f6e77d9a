//! The result of `overdue bench close`: a line for each way of closing, and how much batches gain.

use std::{fmt, time::Duration};

use serde::Serialize;

use super::method::Method;
use crate::statistics::per_second;

/// Batches are to be at least so many times as fast as one by one.
pub(crate) const EXPECTED_RATIO: f64 = 10.0;
/// Changes when a field gets another meaning or goes.
const SCHEMA: u32 = 1;

/// How long one way of closing took.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CloseLine {
    /// The way of closing.
    pub method: Method,
    /// The same in words.
    pub what: String,
    /// Orders closed.
    pub orders: usize,
    /// Seconds for all of them.
    pub took_s: f64,
    /// Orders closed per second.
    pub orders_per_s: f64,
}

impl CloseLine {
    /// `orders` were closed in the time `took`.
    #[must_use]
    pub(crate) fn new(method: Method, batch: usize, orders: usize, took: Duration) -> Self {
        Self {
            method,
            what: method.describe(batch),
            orders,
            took_s: took.as_secs_f64(),
            orders_per_s: per_second(orders, took),
        }
    }
}

/// The result of the benchmark.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub(crate) struct CloseReport {
    /// Changes when a field gets another meaning or goes.
    pub schema: u32,
    /// Orders closed each way; one by one closes fewer.
    pub orders: usize,
    /// Orders in a batch.
    pub batch: usize,
    /// A line for each way.
    pub lines: Vec<CloseLine>,
    /// Batches on one connection : one by one, in orders per second.
    pub ratio: f64,
    /// Batches on one connection : the same statements as plain SQL, in orders per second.
    pub of_plain_sql: f64,
    /// What is wrong (orders closed twice or not at all, stock that is missing), and after which way of closing.
    pub broken: Vec<String>,
}

impl CloseReport {
    pub(super) fn new(
        orders: usize,
        batch: usize,
        lines: Vec<CloseLine>,
        broken: Vec<String>,
    ) -> Self {
        let rate = |method: Method| {
            lines.iter().find(|line| line.method == method).map_or(0.0, |line| line.orders_per_s)
        };
        let batches_to = |method: Method| match rate(method) {
            0.0 => 0.0,
            other => (rate(Method::Batches) / other * 100.0).round() / 100.0,
        };
        let (ratio, of_plain_sql) = (batches_to(Method::OneByOne), batches_to(Method::SqlBatches));
        Self { schema: SCHEMA, orders, batch, lines, ratio, of_plain_sql, broken }
    }
}

impl fmt::Display for CloseReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "closing overdue orders of 3 items, half of these in 5 hot SKUs")?;
        for line in &self.lines {
            let sample = if line.orders < self.orders { ", a sample" } else { "" };
            writeln!(
                f,
                "{:<46} {:>7.0} orders/s   {} in {:.2} s{sample}",
                line.what, line.orders_per_s, line.orders, line.took_s
            )?;
        }
        writeln!(
            f,
            "batches : one by one = {:.1} (expected: at least {EXPECTED_RATIO})",
            self.ratio
        )?;
        writeln!(f, "batches : plain SQL  = {:.2}", self.of_plain_sql)?;
        for broken in &self.broken {
            writeln!(f, "BROKEN: {broken}")?;
        }
        if self.broken.is_empty() {
            writeln!(f, "every order was closed exactly once, and all stock is back")?;
        }
        Ok(())
    }
}
