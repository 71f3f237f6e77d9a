//! The floor: what the database alone needs for a burst, with all ids known beforehand.

use std::time::Instant;

use futures_util::future::try_join_all;
use tokio_postgres::Statement;

use crate::{
    order_service::basket::Order,
    store::{Store, StoreError, session::Connection},
};

const SQL: &str = include_str!("../../../sql/bench_plain.sql");
/// A statement is planned for its parameters five times, then once for all.
/// <https://www.postgresql.org/docs/current/sql-prepare.html>
const PLANNED: usize = 6;

/// Closes `orders` from `due` on, in batches, each connection the same number of them.
///
/// # Errors
/// A statement failed.
pub(crate) async fn close(
    store: &Store,
    orders: &[Order],
    due: Instant,
    connections: usize,
    batch: usize,
) -> Result<(), StoreError> {
    let ids: Vec<&str> = orders.iter().map(|order| order.id.as_str()).collect();
    let share = ids.len().div_ceil(connections).max(1);
    try_join_all(ids.chunks(share).map(|ids| close_share(store, ids, due, batch))).await.map(drop)
}

async fn close_share(
    store: &Store,
    ids: &[&str],
    due: Instant,
    batch: usize,
) -> Result<(), StoreError> {
    let (client, statement) = planned(store).await?;
    tokio::time::sleep_until(due.into()).await;
    for ids in ids.chunks(batch) {
        store.named("bench_plain", client.execute(&statement, &[&ids]).await)?;
    }
    Ok(())
}

/// A connection that closes one order after the other.
pub(crate) struct OneByOne {
    client: Connection,
    statement: Statement,
}

impl OneByOne {
    /// Connects, and has the statement planned.
    ///
    /// # Errors
    /// A statement failed.
    pub(crate) async fn prepare(store: &Store) -> Result<Self, StoreError> {
        let (client, statement) = planned(store).await?;
        Ok(Self { client, statement })
    }

    /// Closes an order.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn close(&mut self, store: &Store, order: &Order) -> Result<(), StoreError> {
        let ids = [order.id.as_str()];
        let closed = self.client.execute(&self.statement, &[&ids.as_slice()]).await;
        store.named("bench_plain", closed).map(drop)
    }
}

async fn planned(store: &Store) -> Result<(Connection, Statement), StoreError> {
    let client = store.client().await?;
    let statement = store.named("bench_plain", client.prepare_cached(SQL).await)?;
    for _ in 0..PLANNED {
        let nothing: &[&str] = &[];
        store.named("bench_plain", client.execute(&statement, &[&nothing]).await)?;
    }
    Ok((client, statement))
}
