//! What a run works with.

use std::sync::Arc;

use crate::{order_service::OrderService, topology::route::Route, worker::Worker};

/// Broker, database, worker and options of a run.
pub(crate) struct DemoSetup {
    /// Broker, database and topology; runs in this process if `in_process`, otherwise it only names them.
    pub worker: Arc<Worker>,
    /// Whether the worker runs in this process.
    pub in_process: bool,
    /// On the connections of the worker.
    pub orders: OrderService,
    /// On connections of its own, so that no payment waits for one.
    pub payments: OrderService,
    /// How many connections these are.
    pub payment_connections: usize,
    /// The queue of the timeout whose effect closes the orders.
    pub queue: String,
    /// Where the due notices are published.
    pub route: Route,
    /// Orders created per second.
    pub rate: u32,
    /// Whether the rows stay in the database.
    pub keep: bool,
}
