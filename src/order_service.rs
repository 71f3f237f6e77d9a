//! The reference order service: what an order service on the reference tables does, and what must hold of it.
//!
//! ```text
//! fill stock ─▶ create orders ─▶ pay, or overdue closes ─▶ facts ─▶ broken invariants
//! ```
//!
//! Demo and drill work with it. Every id and SKU begins with the id of a run, and every statement
//! looks only at these rows, so any number of runs, in any number of processes, share one database.

pub(crate) mod basket;
mod create;
pub(crate) mod facts;
pub(crate) mod invariants;
mod pay;
mod read;
pub(crate) mod run_id;
mod tables;

use futures_util::future::try_join_all;
use tokio_postgres::{Row, types::ToSql};

pub(crate) use run_id::RunId;
pub(crate) use tables::ensure_tables;

use crate::store::{Store, StoreError};

/// The orders and the stock of one run.
#[derive(Clone)]
pub(crate) struct OrderService {
    store: Store,
    run: RunId,
}

/// A statement: how errors call it, and its SQL.
struct Statement {
    name: &'static str,
    sql: &'static str,
}

impl OrderService {
    /// Connects with the first statement; the tables are there already, see [`ensure_tables`].
    #[must_use]
    pub(crate) const fn new(store: Store, run: RunId) -> Self {
        Self { store, run }
    }

    async fn rows(
        &self,
        Statement { name, sql }: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let client = self.store.client().await?;
        let statement = self.store.named(name, client.prepare_cached(sql).await)?;
        self.store.named(name, client.query(&statement, parameters).await)
    }

    async fn row(
        &self,
        Statement { name, sql }: &Statement,
        parameters: &[&(dyn ToSql + Sync)],
    ) -> Result<Row, StoreError> {
        let client = self.store.client().await?;
        let statement = self.store.named(name, client.prepare_cached(sql).await)?;
        self.store.named(name, client.query_one(&statement, parameters).await)
    }
}

/// Opens `connections` of a pool and prepares a statement on each, so that its first use is as fast as the others.
pub(crate) async fn prepare(
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
