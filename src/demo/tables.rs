//! The rows of a run that are no orders yet, or no longer.

use futures_util::future::try_join_all;

use super::script::{RunId, Script};
use crate::store::{Store, StoreError};

/// Creates the tables of a run where one of them is missing; where none is, no right to create is needed.
///
/// # Errors
/// A statement failed; nothing was created.
pub async fn ensure(store: &Store, search_path: &str) -> Result<(), StoreError> {
    const SQL: &str = include_str!("../../sql/demo_tables.sql");
    let client = store.client().await?;
    let row = store.named("demo_tables", client.query_one(SQL, &[]).await)?;
    if row.get(0) {
        return Ok(());
    }
    store.init(search_path, true).await
}

/// Puts so much on every shelf of the run that each of its orders finds what it needs.
pub(super) async fn fill_shelves(store: &Store, script: &Script) -> Result<(), StoreError> {
    const SQL: &str = include_str!("../../sql/demo_stock.sql");
    let quantities = script.shelves();
    let skus: Vec<String> = (0..quantities.len()).map(|index| script.run.sku(index)).collect();
    let client = store.client().await?;
    store.named("demo_stock", client.execute(SQL, &[&skus, &quantities]).await).map(drop)
}

/// Opens `connections` of a pool and prepares a statement on each, so that its first use is as quick as the others.
pub(crate) async fn warm(
    store: &Store,
    connections: usize,
    name: &'static str,
    sql: &str,
) -> Result<(), StoreError> {
    let clients = try_join_all((0..connections).map(|_| store.client())).await?;
    for client in &clients {
        store.named(name, client.prepare_cached(sql).await)?;
    }
    Ok(())
}

/// How many orders of a run still wait for their message. Without its order a message ends in the parking lot.
///
/// # Errors
/// The statement failed.
pub async fn waiting(store: &Store, run: &RunId) -> Result<i64, StoreError> {
    const SQL: &str = include_str!("../../sql/demo_waiting.sql");
    let client = store.client().await?;
    Ok(store.named("demo_waiting", client.query_one(SQL, &[&run.as_str()]).await)?.get(0))
}

/// Removes the rows of a run in one transaction and says how many orders went; its events are the relay's.
///
/// # Errors
/// A statement failed; nothing was removed.
pub async fn remove(store: &Store, run: &RunId) -> Result<i64, StoreError> {
    const ORDERS: &str = include_str!("../../sql/demo_remove_orders.sql");
    const STOCK: &str = include_str!("../../sql/demo_remove_stock.sql");
    let prefix = run.as_str();
    let mut client = store.client().await?;
    let transaction = store.named("demo_remove", client.transaction().await)?;
    let gone = transaction.query_one(ORDERS, &[&prefix]).await;
    let gone = store.named("demo_remove_orders", gone)?.get(0);
    store.named("demo_remove_stock", transaction.execute(STOCK, &[&prefix]).await)?;
    store.named("demo_remove", transaction.commit().await)?;
    Ok(gone)
}
