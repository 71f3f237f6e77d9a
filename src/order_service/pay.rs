//! Payments: taken from unpaid orders, refused by all others.

use std::time::Instant;

use super::{OrderService, prepare};
use crate::{
    order::OrderId,
    store::{FailureKind, StoreError},
};

const SQL: &str = include_str!("../../sql/pay.sql");
/// Attempts at a payment that only conflicted with another transaction.
const ATTEMPTS: u32 = 3;

/// What became of a payment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    /// Whether it was taken; otherwise it was refused, because the order was no longer unpaid.
    pub taken: bool,
    /// When the statement was sent.
    pub sent: Instant,
}

impl OrderService {
    /// Pays an order.
    ///
    /// # Errors
    /// The statement failed. When the connection was lost, the payment may have been taken all the same.
    pub(crate) async fn pay(&self, order: &OrderId) -> Result<Answer, StoreError> {
        let mut attempt = 1;
        loop {
            let client = self.store.client().await?;
            let statement = self.store.named("pay", client.prepare_cached(SQL).await)?;
            let sent = Instant::now();
            let row = client.query_opt(&statement, &[&order.as_str()]).await;
            match self.store.named("pay", row) {
                Ok(row) => return Ok(Answer { taken: row.is_some(), sent }),
                Err(error) if error.kind() == FailureKind::Contention && attempt < ATTEMPTS => {
                    attempt += 1;
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// Opens `connections` for payments, so that none of them waits for one.
    ///
    /// # Errors
    /// No connection, or the reference tables are not there.
    pub(crate) async fn prepare_payments(&self, connections: usize) -> Result<(), StoreError> {
        prepare(&self.store, connections, "pay", SQL).await
    }
}
