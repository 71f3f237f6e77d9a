//! What closing orders costs: one by one, in batches, and what plain SQL would need for the same. And what a change
//! of the topology does to the messages in it: [`change`].
//!
//! In a schema of its own, so that nothing else is touched; each way of closing begins with fresh tables.

pub mod change;
pub mod close;
pub mod load;
pub mod report;

use rand::{SeedableRng, rngs::StdRng};

use crate::{
    demo::basket::{self, Item},
    order::OrderId,
    store::{Store, StoreError, orders::Effect},
};
use close::Method;
use report::{Line, Report};

/// One order per transaction takes about a hundred times as long as the others: a sample is enough.
const ONE_BY_ONE_AT_MOST: usize = 4_000;
/// Items of an order, half of them in five hot SKUs, as in the demo.
const ITEMS: usize = 3;
/// The same orders each time.
const SEED: u64 = 20_000;

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Size {
    /// Orders to close, at least 1.
    pub orders: usize,
    /// Orders in a batch, at least 1.
    pub batch: usize,
}

/// An order to be closed.
#[derive(Clone, Debug)]
pub struct Order {
    id: OrderId,
    items: Vec<Item>,
}

/// Measures every way of closing; `tell` hears what is being done.
///
/// `store` has its own, empty schema, with the tables in it, and a connection for each batch in flight.
///
/// # Errors
/// A statement failed. Orders closed twice or not at all are no error, they are in the report.
pub async fn close(store: &Store, size: Size, tell: impl Fn(&str)) -> Result<Report, StoreError> {
    let orders = orders(size.orders);
    let effect = Effect::close();
    let mut report = Report::new(size);
    for method in Method::ALL {
        let sample = match method {
            Method::OneByOne => &orders[..orders.len().min(ONE_BY_ONE_AT_MOST)],
            _ => &orders,
        };
        tell(&format!("creating {} orders", sample.len()));
        let available = load::fresh(store, sample).await?;
        tell(&method.describe(size.batch));
        let took = method.run(store, &effect, sample, size.batch).await?;
        report.lines.push(Line::new(method, size.batch, sample.len(), took));
        let wrong = load::wrong(store, sample.len(), available).await?;
        report
            .broken
            .extend(wrong.map(|wrong| format!("{}: {wrong}", method.describe(size.batch))));
    }
    report.compare();
    Ok(report)
}

fn orders(count: usize) -> Vec<Order> {
    let mut rng = StdRng::seed_from_u64(SEED);
    let order = |number: usize| {
        let id = OrderId::parse(&format!("bench-{number:07}")).ok()?;
        Some(Order { id, items: basket::basket(&mut rng, ITEMS) })
    };
    (1..=count).filter_map(order).collect()
}
