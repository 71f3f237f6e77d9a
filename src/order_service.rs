//! The reference order service: the statements of an order service on the reference tables, and the outcome of its orders.
//!
//! Every order id and SKU begins with the id of a run, and every statement concerns only these rows. Any number of runs, in any
//! number of processes, can therefore share one database.

pub(crate) mod outcome;

use std::{fmt, time::Duration};

use futures_util::future::try_join_all;
use jiff::Timestamp;
use tokio_postgres::types::ToSql;

use crate::{
    order::{OrderId, OrderIdError},
    store::{FailureKind, Store, StoreError},
};

/// Units of each SKU before the first order.
pub(crate) const STOCK: i64 = 1_000_000_000;

const PAY: &str = include_str!("../sql/pay.sql");
/// Attempts at a payment that conflicts with another transaction.
const PAY_ATTEMPTS: u32 = 3;

/// The id of a run and the prefix of its order ids and SKUs, e.g. `demo-3f9a1c2b`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RunId(String);

impl RunId {
    /// The run with this number.
    pub(crate) fn new(number: u32) -> Self {
        Self(format!("demo-{number:08x}"))
    }

    /// Parses the id of a run as the demo prints it.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let number = text.strip_prefix("demo-").and_then(|n| u32::from_str_radix(n, 16).ok());
        let run = number.map(Self::new).filter(|run| run.0 == text);
        run.ok_or_else(|| "a run id looks like `demo-3f9a1c2b`".to_owned())
    }

    /// The id of an order of this run: the run, `-` and `name`.
    pub(crate) fn order_id(&self, name: &str) -> Result<OrderId, OrderIdError> {
        OrderId::parse(&format!("{self}-{name}"))
    }
}

impl fmt::Display for RunId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// The orders and the stock of one run.
#[derive(Clone)]
pub(crate) struct OrderService {
    store: Store,
    run: RunId,
}

/// Progress of a run.
#[derive(Clone, Debug)]
pub(crate) struct Open {
    /// Orders that are neither paid nor closed.
    pub unpaid: u64,
    /// The path by which overdue closed the last order of the run; `None` if it did not.
    pub last_path: Option<String>,
}

impl OrderService {
    /// Connects with the first statement. Call [`Self::ensure_tables`] first.
    pub(crate) const fn new(store: Store, run: RunId) -> Self {
        Self { store, run }
    }

    /// Creates the tables if one of them is missing. If all exist, no right to create is needed. If it fails, nothing was created.
    pub(crate) async fn ensure_tables(store: &Store, search_path: &str) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../sql/service_tables.sql");
        let are_there = store.one("service_tables", SQL, &[]).await?.get(0);
        if are_there { Ok(()) } else { store.init(search_path, true).await }
    }

    /// Opens `connections` and prepares payments on each, so that no payment waits for that.
    pub(crate) async fn prepare_payments(&self, connections: usize) -> Result<(), StoreError> {
        let clients = try_join_all((0..connections).map(|_| self.store.client())).await?;
        for client in &clients {
            self.store.named("pay", client.prepare_cached(PAY).await)?;
        }
        Ok(())
    }

    /// Adds the SKUs of the run, [`STOCK`] units each. If it fails, nothing was added.
    pub(crate) async fn fill_stock(&self) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../sql/service_fill_stock.sql");
        self.store.rows("service_fill_stock", SQL, &[&self.run.0, &STOCK]).await.map(drop)
    }

    /// Creates orders in one statement, and reserves their stock. Returns their deadline, which is `after` from now by the
    /// database's clock. The items follow from the seed and the names of the orders. If it fails, no order was created; an id that
    /// exists is an error.
    pub(crate) async fn create(
        &self,
        ids: &[&str],
        after: Duration,
        seed: u64,
    ) -> Result<Timestamp, StoreError> {
        const SQL: &str = include_str!("../sql/service_create.sql");
        let after_ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        let parameters: [&(dyn ToSql + Sync); 4] =
            [&ids, &after_ms, &self.run.0, &seed.cast_signed()];
        Ok(self.store.one("service_create", SQL, &parameters).await?.get("due_at"))
    }

    /// Pays an order. Returns whether the payment was taken: it is refused if the order is no longer unpaid. If the connection is
    /// lost, the payment may have been taken.
    pub(crate) async fn pay(&self, order: &str) -> Result<bool, StoreError> {
        let mut attempt = 1;
        loop {
            let client = self.store.client().await?;
            let statement = self.store.named("pay", client.prepare_cached(PAY).await)?;
            let row = client.query_opt(&statement, &[&order]).await;
            match self.store.named("pay", row) {
                Ok(row) => return Ok(row.is_some()),
                Err(error) if error.kind() == FailureKind::Contention && attempt < PAY_ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Progress of the run; `last` is the id of its last order.
    pub(crate) async fn open(&self, last: &str) -> Result<Open, StoreError> {
        const SQL: &str = include_str!("../sql/service_open.sql");
        let row = self.store.one("service_open", SQL, &[&self.run.0, &last]).await?;
        let unpaid: i64 = row.get("unpaid");
        Ok(Open { unpaid: unpaid.unsigned_abs(), last_path: row.get("last_path") })
    }

    /// Orders that still wait for their message. A message without its order ends in the parking lot.
    pub(crate) async fn waiting(&self) -> Result<i64, StoreError> {
        const SQL: &str = include_str!("../sql/service_waiting.sql");
        Ok(self.store.one("service_waiting", SQL, &[&self.run.0]).await?.get("orders"))
    }

    /// Removes the rows of the run, and returns the number of its orders. The events stay: the relay publishes and removes them. If
    /// it fails, nothing was removed.
    pub(crate) async fn remove(&self) -> Result<i64, StoreError> {
        const SQL: &str = include_str!("../sql/service_remove.sql");
        Ok(self.store.one("service_remove", SQL, &[&self.run.0]).await?.get("orders"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_id_is_read_back() {
        assert_eq!(RunId::parse("demo-0f9a1c2b"), Ok(RunId::new(0x0f9a_1c2b)));
        for wrong in ["demo-", "demo-3f9a1c2", "demo-3F9A1C2B", "x-3f9a1c2b", "demo-3f9a1c2b-1"] {
            assert!(RunId::parse(wrong).is_err(), "{wrong}");
        }
    }
}
