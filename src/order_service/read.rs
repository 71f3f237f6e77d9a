//! Reading the facts of a run.

use std::collections::HashMap;

use tokio_postgres::Row;

use super::{
    OrderService, Statement,
    basket::SKUS,
    facts::{Facts, OrderState, StockLevel},
};
use crate::store::StoreError;

const STATES: Statement =
    Statement { name: "service_states", sql: include_str!("../../sql/service_states.sql") };
const STOCK: Statement =
    Statement { name: "service_stock", sql: include_str!("../../sql/service_stock.sql") };
const FINAL: Statement =
    Statement { name: "service_final", sql: include_str!("../../sql/service_final.sql") };
const COMMIT_TIMES: Statement = Statement {
    name: "service_commit_times",
    sql: "SELECT current_setting('track_commit_timestamp')::boolean",
};

impl OrderService {
    /// The state of the orders `ids`, and of all stock of the run.
    ///
    /// # Errors
    /// A statement failed.
    pub(crate) async fn facts(&self, ids: &[&str]) -> Result<Facts, StoreError> {
        let commit_times = self.row(&COMMIT_TIMES, &[]).await?.get(0);
        let orders = self.rows(&STATES, &[&ids, &commit_times]).await?;
        let skus: Vec<String> = (0..SKUS).map(|index| self.run.sku(index)).collect();
        let stock = self.rows(&STOCK, &[&skus]).await?;
        Ok(Facts {
            orders: orders.iter().map(state).collect(),
            stock: stock.iter().map(level).collect(),
            commit_times,
        })
    }

    /// Those of `ids` that are no longer unpaid, each with what made overdue close it, if overdue did.
    ///
    /// # Errors
    /// The statement failed.
    pub(crate) async fn final_orders(
        &self,
        ids: &[&str],
    ) -> Result<HashMap<String, Option<String>>, StoreError> {
        let rows = self.rows(&FINAL, &[&ids]).await?;
        Ok(rows.iter().map(|row| (row.get("order_id"), row.get("path"))).collect())
    }
}

fn state(row: &Row) -> OrderState {
    OrderState {
        id: row.get("order_id"),
        status: row.get("status"),
        due_at: row.get("due_at"),
        paid_at: row.get("paid_at"),
        closed_at: row.get("closed_at"),
        overdue: row.get("overdue"),
        closures: row.get("closures"),
        path: row.get("path"),
        final_at: row.get("final_at"),
    }
}

fn level(row: &Row) -> StockLevel {
    StockLevel {
        sku: row.get("sku"),
        available: row.get("available"),
        reserved: row.get("reserved"),
        sold: row.get("sold"),
        in_unpaid: row.get("in_unpaid"),
        in_paid: row.get("in_paid"),
    }
}
