//! What the benchmark works with.

use std::sync::Arc;

use crate::{order_service::OrderService, store::Store, worker::Worker};

/// What the benchmark works with; all of it is its own.
pub(crate) struct LocksSetup {
    /// Closes the orders; its topology is declared.
    pub worker: Arc<Worker>,
    /// Creates the orders.
    pub orders: OrderService,
    /// Pays, on connections of its own.
    pub payments: OrderService,
    /// How many these are.
    pub payment_connections: usize,
    /// Whose transaction keeps the locks.
    pub holder: Store,
}
