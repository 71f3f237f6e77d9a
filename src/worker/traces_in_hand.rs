//! The trace contexts of the messages that a worker has in memory: bursts and sweeps close orders ahead of them.

use std::sync::Arc;

use parking_lot::Mutex;

use crate::{
    order::OrderId,
    wire::{Trace, Traces},
};

/// Trace contexts by order; for two messages about the same order, the context of the later message.
#[derive(Debug, Default)]
pub(super) struct TracesInHand(Arc<Mutex<Traces>>);

/// Registers a trace context until it is dropped.
#[derive(Debug)]
pub(super) struct TraceInHand {
    all: Arc<Mutex<Traces>>,
    order: OrderId,
}

impl TracesInHand {
    pub(super) fn add(&self, order: &OrderId, trace: Trace) -> TraceInHand {
        self.0.lock().insert(order.clone(), trace);
        TraceInHand { all: Arc::clone(&self.0), order: order.clone() }
    }

    /// The trace contexts of these orders.
    pub(super) fn of(&self, orders: &[OrderId]) -> Traces {
        let all = self.0.lock();
        if all.is_empty() {
            return Traces::default();
        }
        orders
            .iter()
            .filter_map(|id| all.get(id).map(|trace| (id.clone(), trace.clone())))
            .collect()
    }
}

impl Drop for TraceInHand {
    fn drop(&mut self) {
        self.all.lock().remove(&self.order);
    }
}
