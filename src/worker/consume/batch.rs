//! A batch of one queue at the database.

use std::time::{Duration, Instant};

use super::delivery::Delivery;
use crate::{
    order::Outcome,
    spans::Batch,
    store::{StoreError, orders::ClosingPath},
    telemetry,
    wire::Traces,
    worker::{closing::until, context::ConsumerContext},
};

/// A batch, and what the database said of it. `None` is a body that could not be read.
pub(super) struct Answered {
    pub(super) batch: Vec<Delivery>,
    pub(super) outcomes: Result<Vec<Option<Outcome>>, StoreError>,
}

/// Closes what is due.
pub(super) async fn close(context: &ConsumerContext, batch: Vec<Delivery>) -> Answered {
    let outcomes = outcomes(context, &batch, false).await;
    Answered { batch, outcomes }
}

/// Closes the order of one delivery, which waits for the locks of its rows in turn.
pub(super) async fn close_in_turn(context: &ConsumerContext, delivery: Delivery) -> Answered {
    let batch = vec![delivery];
    let outcomes = outcomes(context, &batch, true).await;
    Answered { batch, outcomes }
}

async fn outcomes(
    context: &ConsumerContext,
    batch: &[Delivery],
    in_turn: bool,
) -> Result<Vec<Option<Outcome>>, StoreError> {
    let began = Instant::now();
    let worker = &context.worker;
    let ids: Vec<_> = batch.iter().filter_map(|delivery| delivery.order_id().cloned()).collect();
    let closer = &worker.closers[&context.timeout.effect];
    let found = batch.iter().filter_map(|delivery| Some((delivery.trace()?, delivery.order_id()?)));
    let traces: Traces = found.map(|(trace, id)| (id.clone(), trace)).collect();
    let (timeout, effect) = (&context.timeout.name, &context.timeout.effect);
    let asked = match ids.as_slice() {
        [id] if in_turn => closer.outcome_in_turn(id, &traces, timeout).await,
        ids => closer.outcomes(ids, &traces, ClosingPath::Message, Some(timeout)).await,
    };
    let outcomes = match asked {
        // Until the pause ends they are as early as any.
        Err(StoreError::Paused { rest, .. }) => vec![until(rest); ids.len()],
        outcomes => outcomes?,
    };
    let took = began.elapsed();
    report(context, &outcomes, took);
    let of_all = Batch { timeout, effect, path: ClosingPath::Message.as_str(), took };
    worker.spans.closed(of_all, &ids, &traces, &outcomes);
    telemetry::answered(timeout, &ids, &traces, &outcomes);
    let mut outcomes = outcomes.into_iter();
    Ok(batch.iter().map(|delivery| delivery.order_id().and_then(|_| outcomes.next())).collect())
}

fn report(context: &ConsumerContext, outcomes: &[Outcome], took: Duration) {
    let ConsumerContext { worker, timeout, .. } = context;
    if worker.counters.batch(&timeout.name, ClosingPath::Message, outcomes, took) > 0 {
        worker.events.notify_one();
        worker.health.closed(&timeout.effect);
    }
}
