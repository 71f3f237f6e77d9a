//! Fresh tables before each way of closing, and what is wrong in them afterwards.

use std::collections::HashSet;

use crate::{
    order_service::{
        OrderService,
        basket::{Order, initial_stock},
        invariants::{self, Done},
    },
    store::{Store, StoreError},
    topology::level::Ttl,
};

/// Orders inserted by one statement.
const CHUNK: usize = 2_000;
/// The shortest deadline there is: over before the last order is in.
const AT_ONCE: Ttl = match Ttl::from_millis(1) {
    Some(ttl) => ttl,
    None => panic!("1 ms is a TTL"),
};

/// Empties the tables and fills them with `orders`, all overdue.
pub(super) async fn fill(
    store: &Store,
    service: &OrderService,
    orders: &[Order],
) -> Result<(), StoreError> {
    const CLEAR: &str = include_str!("../../../sql/bench_clear.sql");
    store.run_script("bench_clear", CLEAR).await?;
    service.fill_stock(&initial_stock(orders)).await?;
    for chunk in orders.chunks(CHUNK) {
        service.create(chunk.iter(), AT_ONCE).await?;
    }
    // As autovacuum would by and by: otherwise the plans are for empty tables.
    store.run_script("bench_analyze", "ANALYZE orders, order_items, stock").await
}

/// What is wrong after each of `orders` was to be closed once, with one event, and its stock to be available again.
pub(super) async fn broken(
    store: &Store,
    service: &OrderService,
    orders: &[Order],
) -> Result<Vec<String>, StoreError> {
    let done = Done {
        run: service.run(),
        created: orders.iter().map(|order| order.id.as_str()).collect(),
        initial_stock: initial_stock(orders),
        taken: HashSet::new(),
        refused: HashSet::new(),
        finished: true,
    };
    let facts = service.facts(&done.created).await?;
    let broken = invariants::broken(&done, &facts);
    let mut broken: Vec<String> = broken.iter().map(ToString::to_string).collect();
    broken.extend(wrong_events(store, orders.len()).await?);
    Ok(broken)
}

async fn wrong_events(store: &Store, orders: usize) -> Result<Option<String>, StoreError> {
    const SQL: &str = include_str!("../../../sql/bench_events.sql");
    let client = store.client().await?;
    let row = store.named("bench_events", client.query_one(SQL, &[]).await)?;
    let (events, of): (i64, i64) = (row.get("events"), row.get("orders"));
    let expected = i64::try_from(orders).unwrap_or(i64::MAX);
    let is_right = (events, of) == (expected, expected);
    Ok((!is_right).then(|| format!("{events} events of {of} orders, not one of each of {orders}")))
}
