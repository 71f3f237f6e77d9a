//! The tables before anything is measured.

use std::collections::BTreeMap;

use super::{Load, generator::SKUS};
use crate::{
    order_service::run_id::RunId,
    store::{Store, StoreError},
};

/// Pieces of each SKU that no order has reserved.
pub(crate) const SPARE: i64 = 1_000_000;
/// Orders inserted by one statement.
const CHUNK: usize = 5_000;

/// The tables of the benchmark, in a schema of its own.
pub(crate) struct Tables<'a> {
    /// Leads to that schema.
    pub store: &'a Store,
    /// What gives orders and SKUs their names.
    pub run: &'a RunId,
}

impl Tables<'_> {
    /// Empties all of them, and fills the stock.
    ///
    /// # Errors
    /// A statement failed.
    pub(crate) async fn reset(&self) -> Result<(), StoreError> {
        const CLEAR: &str = include_str!("../../../sql/bench_clear.sql");
        self.store.run_script("bench_clear", CLEAR).await?;
        self.reserve((0..SKUS).map(|sku| (sku, 0))).await
    }

    /// Adds orders, and reserves what is in them.
    ///
    /// # Errors
    /// A statement failed.
    pub(crate) async fn insert(&self, load: &Load) -> Result<(), StoreError> {
        let mut reserved = BTreeMap::<usize, i64>::new();
        for item in load.orders.iter().flat_map(|order| &order.items) {
            *reserved.entry(item.sku).or_default() += item.qty;
        }
        self.reserve(reserved.into_iter()).await?;
        let chunks = load.orders.chunks(CHUNK).zip(load.due_us.chunks(CHUNK));
        for (orders, due_us) in chunks {
            self.insert_chunk(orders, due_us).await?;
        }
        Ok(())
    }

    /// As autovacuum and the checkpointer leave them after a while: plans are for tables of this size, and no checkpoint
    /// falls into what is measured.
    ///
    /// # Errors
    /// A statement failed; a user that may not ask for a checkpoint goes without one.
    pub(crate) async fn settle(&self, load: &Load) -> Result<(), StoreError> {
        const VACUUM: &str = "VACUUM (ANALYZE) orders, order_items, stock, closures, outbox";
        let client = self.store.client().await?;
        self.store.named("bench_vacuum", client.batch_execute(VACUUM).await)?;
        // Few orders say nothing of speed, and everybody on the server waits for its files.
        if load.orders.len() > CHUNK {
            let _not_permitted = client.batch_execute("CHECKPOINT").await;
        }
        Ok(())
    }

    async fn reserve(
        &self,
        reserved: impl Iterator<Item = (usize, i64)>,
    ) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../../../sql/bench_shelves.sql");
        let (skus, quantities): (Vec<String>, Vec<i64>) =
            reserved.map(|(sku, qty)| (self.run.sku(sku), qty)).unzip();
        let client = self.store.client().await?;
        let filled = client.execute(SQL, &[&skus, &quantities, &SPARE]).await;
        self.store.named("bench_shelves", filled).map(drop)
    }

    async fn insert_chunk(
        &self,
        orders: &[crate::order_service::basket::Order],
        due_us: &[i64],
    ) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../../../sql/bench_load.sql");
        let ids: Vec<&str> = orders.iter().map(|order| order.id.as_str()).collect();
        let (mut of, mut skus, mut quantities) = (Vec::new(), Vec::new(), Vec::new());
        for order in orders {
            for item in &order.items {
                of.push(order.id.as_str());
                skus.push(self.run.sku(item.sku));
                quantities.push(item.qty);
            }
        }
        let client = self.store.client().await?;
        let inserted = client.execute(SQL, &[&ids, &due_us, &of, &skus, &quantities]).await;
        self.store.named("bench_load", inserted).map(drop)
    }
}
