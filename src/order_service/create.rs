//! Filling the stock, and creating orders that reserve it.

use jiff::Timestamp;

use super::{OrderService, Statement, basket::Order};
use crate::{store::StoreError, topology::level::Ttl};

const FILL_STOCK: Statement =
    Statement { name: "service_fill_stock", sql: include_str!("../../sql/service_fill_stock.sql") };
const CREATE: Statement =
    Statement { name: "service_create", sql: include_str!("../../sql/service_create.sql") };

impl OrderService {
    /// Adds the SKUs of the run; the index of a quantity is the SKU.
    ///
    /// # Errors
    /// The statement failed: nothing was added.
    pub(crate) async fn fill_stock(&self, quantities: &[i64]) -> Result<(), StoreError> {
        let skus: Vec<String> = (0..quantities.len()).map(|index| self.run.sku(index)).collect();
        self.rows(&FILL_STOCK, &[&skus, &quantities]).await.map(drop)
    }

    /// Creates orders in one statement and reserves their stock; returns their deadline, which is `after` from
    /// now by the database's clock.
    ///
    /// # Errors
    /// The statement failed: no order was created. An id that is there already, or too little stock, is an error.
    pub(crate) async fn create<'a>(
        &self,
        orders: impl Iterator<Item = &'a Order> + Clone,
        after: Ttl,
    ) -> Result<Timestamp, StoreError> {
        let ids: Vec<&str> = orders.clone().map(|order| order.id.as_str()).collect();
        let items = orders.flat_map(|order| order.items.iter().map(move |item| (order, item)));
        let (mut of, mut skus, mut quantities) = (Vec::new(), Vec::new(), Vec::new());
        for (order, item) in items {
            of.push(order.id.as_str());
            skus.push(self.run.sku(item.sku));
            quantities.push(item.qty);
        }
        // A TTL is at most ten years.
        let after_ms = i64::try_from(after.as_millis()).unwrap_or(i64::MAX);
        let row = self.row(&CREATE, &[&ids, &after_ms, &of, &skus, &quantities]).await?;
        Ok(row.get("due_at"))
    }
}
