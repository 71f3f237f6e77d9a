//! Fresh tables before each way of closing, and a look at them afterwards.

use super::Order;
use crate::{
    demo::{
        basket,
        create::{Rows, insert_rows},
    },
    store::{Store, StoreError},
    topology::level::Ttl,
};

/// Orders inserted by one statement.
const CHUNK: usize = 2_000;
/// The shortest deadline there is: over before the last order is in.
const AT_ONCE: Option<Ttl> = Ttl::from_millis(1);

/// Empties the tables, fills them with `orders`, all overdue, and says how much stock there is in all.
pub(super) async fn fresh(store: &Store, orders: &[Order]) -> Result<i64, StoreError> {
    const CLEAR: &str = include_str!("../../sql/bench_clear.sql");
    const STOCK: &str = include_str!("../../sql/demo_stock.sql");
    store.run_script("bench_clear", CLEAR).await?;
    let quantities = basket::shelves(orders.iter().map(|order| order.items.as_slice()));
    let skus: Vec<String> = (0..quantities.len()).map(sku).collect();
    let client = store.client().await?;
    store.named("demo_stock", client.execute(STOCK, &[&skus, &quantities]).await)?;
    for chunk in orders.chunks(CHUNK) {
        insert(store, chunk).await?;
    }
    // As autovacuum would by and by: otherwise the plans are for empty tables.
    store.named("analyze", client.batch_execute("ANALYZE orders, order_items, stock").await)?;
    Ok(quantities.into_iter().sum())
}

async fn insert(store: &Store, orders: &[Order]) -> Result<(), StoreError> {
    let Some(at_once) = AT_ONCE else { return Ok(()) };
    let ids: Vec<&str> = orders.iter().map(|order| order.id.as_str()).collect();
    let mut rows = Rows::default();
    for order in orders {
        for item in &order.items {
            rows.push(order.id.as_str(), sku(item.sku), item.qty);
        }
    }
    insert_rows(store, &ids, at_once, &rows).await.map(drop)
}

fn sku(index: usize) -> String {
    format!("sku-{index:02}")
}

/// What is wrong after `orders` were to be closed once each, and `available` pieces to be back on the shelves.
pub(super) async fn wrong(
    store: &Store,
    orders: usize,
    available: i64,
) -> Result<Option<String>, StoreError> {
    const SQL: &str = include_str!("../../sql/bench_count.sql");
    let client = store.client().await?;
    let row = store.named("bench_count", client.query_one(SQL, &[]).await)?;
    let orders = i64::try_from(orders).unwrap_or(i64::MAX);
    let counted = ["closed", "closures", "orders_in_closures", "events", "orders_in_events"];
    let off = counted.into_iter().map(|name| (name, row.get::<_, i64>(name)));
    if let Some((name, count)) = off.into_iter().find(|(_, count)| *count != orders) {
        return Ok(Some(format!("{name} is {count}, not {orders}")));
    }
    let (back, elsewhere): (i64, i64) = (row.get("available"), row.get("elsewhere"));
    let is_right = back == available && elsewhere == 0;
    Ok((!is_right).then(|| format!("stock: {back} of {available} are back, {elsewhere} are not")))
}
