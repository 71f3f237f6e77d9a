//! The orders that burst and steady close: 10,000 SKUs by Zipf, two items per order, and what became of them.

mod clock;
mod generator;
mod notices;
mod outcome;
pub(crate) mod server;
mod tables;

pub(crate) use clock::DatabaseClock;
pub(crate) use generator::Generator;
pub(crate) use notices::Notices;
pub(crate) use outcome::{Expected, Late, Outcome, PathCount};
pub(crate) use tables::Tables;

use crate::order_service::basket::Order;

/// Orders, each with its deadline.
#[derive(Clone, Debug, Default)]
pub(crate) struct Load {
    /// What the ids of these orders, and of no others, begin with.
    pub prefix: String,
    /// In the order in which they become due.
    pub orders: Vec<Order>,
    /// The deadline of each, in microseconds since 1970 by the database's clock.
    pub due_us: Vec<i64>,
}
