//! What closing orders costs: one by one, in batches, and what plain SQL needs for the same.
//!
//! In a schema of its own, so that nothing else is touched; each way of closing begins with fresh tables.

pub(crate) mod method;
pub(crate) mod report;
mod tables;

use rand::{SeedableRng, rngs::StdRng};

use crate::{
    order_service::{
        OrderService,
        basket::{Order, basket},
        run_id::RunId,
    },
    store::{Store, StoreError, orders::Effect},
};
use method::Method;
use report::{CloseLine, CloseReport};

/// One order per transaction takes about a hundred times as long as the others: a sample is enough.
pub(crate) const ONE_BY_ONE_AT_MOST: usize = 4_000;
/// Items of an order, half of them in five hot SKUs, as in the demo.
const ITEMS: usize = 3;
/// The same orders each time.
const SEED: u64 = 20_000;

/// How much is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CloseSize {
    /// Orders to close, at least 1.
    pub orders: usize,
    /// Orders in a batch, at least 1.
    pub batch: usize,
}

/// Measures every way of closing; `on_step` is called with what is being done.
///
/// `store` has its own, empty schema, with the tables in it, and a connection for each batch in flight.
///
/// # Errors
/// A statement failed. Orders closed twice or not at all are not an error, they are in the report.
pub(crate) async fn run(
    store: &Store,
    size: CloseSize,
    on_step: impl Fn(&str),
) -> Result<CloseReport, StoreError> {
    let MeasuredClosing { lines, broken } = measure(store, size, &Method::ALL, on_step).await?;
    Ok(CloseReport::new(size.orders, size.batch, lines, broken))
}

/// How long ways of closing took, and what is wrong.
pub(crate) struct MeasuredClosing {
    pub lines: Vec<CloseLine>,
    pub broken: Vec<String>,
}

/// Measures some ways of closing, as [`run`] does all of them.
///
/// # Errors
/// As [`run`].
pub(crate) async fn measure(
    store: &Store,
    CloseSize { orders, batch }: CloseSize,
    methods: &[Method],
    on_step: impl Fn(&str),
) -> Result<MeasuredClosing, StoreError> {
    let service = OrderService::new(store.clone(), RunId::new("bench", 0));
    let orders = new_orders(service.run(), orders);
    let effect = Effect::close();
    let (mut lines, mut broken) = (Vec::new(), Vec::new());
    for &method in methods {
        let sample = match method {
            Method::OneByOne => &orders[..orders.len().min(ONE_BY_ONE_AT_MOST)],
            _ => &orders,
        };
        on_step(&format!("creating {} orders", sample.len()));
        tables::fill(store, &service, sample).await?;
        let what = method.describe(batch);
        on_step(&what);
        let took = method.run(store, &effect, sample, batch).await?;
        lines.push(CloseLine::new(method, batch, sample.len(), took));
        let found = tables::broken(store, &service, sample).await?;
        broken.extend(found.into_iter().map(|broken| format!("{what}: {broken}")));
    }
    Ok(MeasuredClosing { lines, broken })
}

fn new_orders(run: &RunId, count: usize) -> Vec<Order> {
    let mut rng = StdRng::seed_from_u64(SEED);
    let order = |number: usize| {
        let id = run.order_id(&format!("{number:07}")).ok()?;
        Some(Order { id, items: basket(&mut rng, ITEMS) })
    };
    (1..=count).filter_map(order).collect()
}
