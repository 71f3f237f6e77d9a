//! The tables of the order service, and the end of a run's rows.

use super::{OrderService, Statement};
use crate::store::{Store, StoreError};

const WAITING: Statement =
    Statement { name: "service_waiting", sql: include_str!("../../sql/service_waiting.sql") };

/// Creates the tables of a run where one of them is missing; with all of them there, the right to create is not needed.
///
/// # Errors
/// A statement failed; nothing was created.
pub(crate) async fn ensure_tables(store: &Store, search_path: &str) -> Result<(), StoreError> {
    const SQL: &str = include_str!("../../sql/service_tables.sql");
    let client = store.client().await?;
    let row = store.named("service_tables", client.query_one(SQL, &[]).await)?;
    if row.get(0) {
        return Ok(());
    }
    store.init(search_path, true).await
}

impl OrderService {
    /// How many orders still wait for their message. Without its order a message ends in the parking lot.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn waiting(&self) -> Result<i64, StoreError> {
        Ok(self.row(&WAITING, &[&self.run.as_str()]).await?.get("orders"))
    }

    /// Removes the rows of the run in one transaction; returns how many orders these were. Events stay: the relay
    /// publishes and removes them.
    ///
    /// # Errors
    /// A statement failed; nothing was removed.
    pub(crate) async fn remove(&self) -> Result<i64, StoreError> {
        const ORDERS: &str = include_str!("../../sql/service_remove_orders.sql");
        const STOCK: &str = include_str!("../../sql/service_remove_stock.sql");
        let (store, prefix) = (&self.store, self.run.as_str());
        let mut client = store.client().await?;
        let transaction = store.named("service_remove", client.transaction().await)?;
        let removed = transaction.query_one(ORDERS, &[&prefix]).await;
        let removed = store.named("service_remove_orders", removed)?.get("orders");
        store.named("service_remove_stock", transaction.execute(STOCK, &[&prefix]).await)?;
        store.named("service_remove", transaction.commit().await)?;
        Ok(removed)
    }
}
