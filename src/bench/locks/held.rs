//! What somebody's open transaction keeps locked.

use serde::Serialize;

use crate::{
    order::OrderId,
    order_service::run_id::RunId,
    store::{Store, StoreError, session::Connection},
};

/// Orders that are locked.
pub(super) const HELD_ORDERS: usize = 20;
/// The SKU that is locked: a hot one.
pub(super) const HELD_SKU: usize = 0;

/// What is locked in a round.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Held {
    /// Nothing.
    Nothing,
    /// [`HELD_ORDERS`] orders that are due.
    Orders,
    /// The stock of a SKU that many orders need.
    Sku,
}

impl Held {
    /// In the order they are measured.
    pub(crate) const ALL: [Self; 3] = [Self::Nothing, Self::Orders, Self::Sku];

    /// In words.
    #[must_use]
    pub(crate) fn describe(self) -> String {
        match self {
            Self::Nothing => "nothing locked".to_owned(),
            Self::Orders => format!("{HELD_ORDERS} orders locked"),
            Self::Sku => "one hot SKU locked".to_owned(),
        }
    }

    /// Locks it until the transaction ends.
    pub(super) async fn lock(
        self,
        store: &Store,
        run: &RunId,
        orders: &[OrderId],
    ) -> Result<Lock, StoreError> {
        const ORDERS: &str = include_str!("../../../sql/bench_hold_orders.sql");
        const STOCK: &str = include_str!("../../../sql/bench_hold_stock.sql");
        let client = store.client().await?;
        store.named("bench_begin", client.batch_execute("BEGIN").await)?;
        let ids: Vec<String> = orders.iter().map(ToString::to_string).collect();
        let locked = match self {
            Self::Nothing => Ok(0),
            Self::Orders => client.execute(ORDERS, &[&ids]).await,
            Self::Sku => client.execute(STOCK, &[&vec![run.sku(HELD_SKU)]]).await,
        };
        store.named("bench_hold", locked)?;
        Ok(Lock(client))
    }
}

/// An open transaction.
pub(super) struct Lock(Connection);

impl Lock {
    /// Ends the transaction, and so its locks.
    pub(super) async fn release(self, store: &Store) -> Result<(), StoreError> {
        store.named("bench_rollback", self.0.batch_execute("ROLLBACK").await)
    }
}
