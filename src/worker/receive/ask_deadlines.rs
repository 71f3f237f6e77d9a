//! Notices that come early and do not say when they are due: the database is asked once, for many at a time.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::{JoinError, JoinHandle};

use super::delivery::Delivery;
use crate::{
    decisions::batch::{Batch, BatchLimits},
    order::OrderId,
    store::{StoreError, deadlines::Deadline},
    worker::context::ConsumerContext,
};

/// How long the first of them waits for others: a small part of any lead.
const AGE: Duration = Duration::from_millis(20);

/// What the database said of a few of them.
pub(super) struct BatchDeadlines {
    pub(super) batch: Vec<Delivery>,
    pub(super) deadlines: Result<Vec<Deadline>, StoreError>,
}

/// Those that are to be asked for, and those that are being asked for.
pub(super) struct AskDeadlines {
    batch: Batch<Delivery>,
    asked: FuturesUnordered<JoinHandle<BatchDeadlines>>,
    /// Whether what comes is early as a rule: what is due already is late by every question more.
    pub(super) pays: bool,
    /// Whether the effect has a statement for it that works.
    pub(super) works: bool,
}

impl AskDeadlines {
    pub(super) fn new(context: &ConsumerContext, size: usize) -> Self {
        let effect = context.worker.closers[&context.timeout.effect].effect();
        let batch = Batch::new(BatchLimits { size, age: AGE });
        Self { batch, asked: FuturesUnordered::new(), pays: true, works: effect.due_sql.is_some() }
    }

    /// Adds one, and asks where that makes enough of them.
    pub(super) fn add(&mut self, delivery: Delivery, context: &Arc<ConsumerContext>) {
        if let Some(full) = self.batch.push(delivery, Instant::now()) {
            self.ask(full, context);
        }
    }

    /// When those that there are have waited long enough for others.
    pub(super) const fn deadline(&self) -> Option<Instant> {
        self.batch.deadline()
    }

    /// Asks for those that there are.
    pub(super) fn flush(&mut self, context: &Arc<ConsumerContext>) {
        let batch = self.batch.take();
        self.ask(batch, context);
    }

    fn ask(&self, batch: Vec<Delivery>, context: &Arc<ConsumerContext>) {
        let context = Arc::clone(context);
        self.asked.push(tokio::spawn(async move {
            let deadlines = deadlines(&context, &batch).await;
            BatchDeadlines { batch, deadlines }
        }));
    }

    /// What the database said; `None` while it is not asked for anything.
    pub(super) async fn next(&mut self) -> Option<Result<BatchDeadlines, JoinError>> {
        self.asked.next().await
    }
}

/// All of them have an order id.
async fn deadlines(
    context: &ConsumerContext,
    batch: &[Delivery],
) -> Result<Vec<Deadline>, StoreError> {
    let effect = context.worker.closers[&context.timeout.effect].effect();
    let ids: Vec<OrderId> =
        batch.iter().filter_map(|delivery| delivery.order_id().cloned()).collect();
    let deadlines = context.worker.store.deadlines(effect, &ids).await?;
    Ok(deadlines.unwrap_or_default())
}
