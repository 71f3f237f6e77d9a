//! A batch of one queue at the database.

use std::time::{Duration, Instant};

use super::delivery::Delivery;
use crate::{
    order::Outcome,
    store::{StoreError, orders::ClosingPath},
    telemetry,
    worker::{context::ConsumerContext, counters::count},
};

/// A batch, and what the database said of it. `None` is a body that could not be read.
pub(super) struct Answered {
    pub(super) batch: Vec<Delivery>,
    pub(super) outcomes: Result<Vec<Option<Outcome>>, StoreError>,
}

/// Closes what is due.
pub(super) async fn close(context: &ConsumerContext, batch: Vec<Delivery>) -> Answered {
    let outcomes = outcomes(context, &batch).await;
    Answered { batch, outcomes }
}

async fn outcomes(
    context: &ConsumerContext,
    batch: &[Delivery],
) -> Result<Vec<Option<Outcome>>, StoreError> {
    let began = Instant::now();
    let worker = &context.worker;
    let ids: Vec<_> = batch.iter().filter_map(|delivery| delivery.order_id().cloned()).collect();
    let closer = &worker.closers[&context.timeout.effect];
    let outcomes = closer.outcomes(&ids, ClosingPath::Message).await?;
    report(context, &outcomes, began.elapsed());
    let mut outcomes = outcomes.into_iter();
    Ok(batch.iter().map(|delivery| delivery.order_id().and_then(|_| outcomes.next())).collect())
}

fn report(context: &ConsumerContext, outcomes: &[Outcome], took: Duration) {
    let closed =
        outcomes.iter().filter(|outcome| matches!(outcome, Outcome::Closed { .. })).count();
    count(&context.worker.counters.closed, closed);
    if closed > 0 {
        context.worker.events.notify_one();
        context.worker.health.closed(&context.timeout.effect);
    }
    let path = ClosingPath::Message.as_str();
    telemetry::batch_closed(&context.timeout.name, path, outcomes, took);
}
