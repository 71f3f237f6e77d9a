//! A batch of one queue at the database.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use tokio::task::JoinSet;

use super::delivery::Delivery;
use crate::{
    decisions::disposition::Unseen,
    order::Outcome,
    spans::Batch,
    store::{StoreError, orders::ClosingPath},
    telemetry,
    topology::file::Gone,
    wire::Traces,
    worker::{
        closing::until, contention::BlockingPermit, context::ConsumerContext, session::SessionEnd,
    },
};

/// A batch with the database's outcomes; `None` for a delivery without an order: an unreadable body, or a canary.
pub(super) struct Answered {
    pub(super) batch: Vec<Delivery>,
    pub(super) outcomes: Result<Vec<Option<Outcome>>, StoreError>,
    /// Meaning of orders without a row.
    pub(super) unseen: Unseen,
}

/// The work at the database: batches, and next to them single orders that may wait for locks.
#[derive(Default)]
pub(super) struct AtDatabase {
    batches: JoinSet<Answered>,
    in_turn: JoinSet<Answered>,
}

impl AtDatabase {
    /// Closes the orders of a batch in a new task.
    pub(super) fn close(&mut self, context: &Arc<ConsumerContext>, batch: Vec<Delivery>) {
        self.batches.spawn(answered(Arc::clone(context), batch, None));
    }

    /// Closes the order of a delivery that stays busy.
    pub(super) fn close_in_turn(
        &mut self,
        context: &Arc<ConsumerContext>,
        delivery: Delivery,
        turn: BlockingPermit,
    ) {
        self.in_turn.spawn(answered(Arc::clone(context), vec![delivery], Some(turn)));
    }

    /// The next result; `None` if no work is at the database. Cancel-safe.
    pub(super) async fn next(&mut self) -> Option<Result<Answered, SessionEnd>> {
        let answered = tokio::select! {
            biased;
            Some(answered) = self.batches.join_next() => answered,
            Some(answered) = self.in_turn.join_next() => answered,
            else => return None,
        };
        Some(answered.map_err(|panic| SessionEnd::Panicked(panic.to_string())))
    }

    pub(super) fn batches(&self) -> usize {
        self.batches.len()
    }
}

async fn answered(
    context: Arc<ConsumerContext>,
    batch: Vec<Delivery>,
    turn: Option<BlockingPermit>,
) -> Answered {
    let outcomes = outcomes(&context, &batch, turn).await;
    let unseen = match &outcomes {
        Ok(outcomes) => unseen(&context, &batch, outcomes).await,
        Err(_) => Unseen::Fault,
    };
    Answered { batch, outcomes, unseen }
}

async fn outcomes(
    context: &ConsumerContext,
    batch: &[Delivery],
    turn: Option<BlockingPermit>,
) -> Result<Vec<Option<Outcome>>, StoreError> {
    let began = Instant::now();
    let worker = &context.worker;
    let ids: Vec<_> = batch.iter().filter_map(|delivery| delivery.order_id().cloned()).collect();
    let closer = &worker.closers[&context.timeout.effect];
    let found = batch.iter().filter_map(|delivery| Some((delivery.trace()?, delivery.order_id()?)));
    let traces: Traces = found.map(|(trace, id)| (id.clone(), trace)).collect();
    let (timeout, effect) = (&context.timeout.name, &context.timeout.effect);
    let asked = match (turn, ids.as_slice()) {
        (Some(turn), [id]) => closer.outcome_in_turn(turn, id, &traces, timeout).await,
        (_, ids) => closer.outcomes(ids, &traces, ClosingPath::Message, Some(timeout)).await,
    };
    let outcomes = match asked {
        // Until the pause ends, the orders are early.
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

/// Queries the meaning of an order without a row, if a notice would be acked because of it.
async fn unseen(
    context: &ConsumerContext,
    batch: &[Delivery],
    outcomes: &[Option<Outcome>],
) -> Unseen {
    let ConsumerContext { worker, timeout, .. } = context;
    let is_asked = |(delivery, outcome): (&Delivery, &Option<Outcome>)| {
        delivery.tries.attempt > 0 && *outcome == Some(Outcome::Unknown)
    };
    if timeout.gone == Gone::Park || !batch.iter().zip(outcomes).any(is_asked) {
        return Unseen::Fault;
    }
    match worker.store.hidden_tables(&worker.effects[&timeout.effect]).await {
        Ok(hidden) if hidden.is_empty() => Unseen::Gone,
        Ok(hidden) => {
            let tables = hidden.join(", ");
            Unseen::Hidden(format!(
                "row level security hides rows of {tables} from this login, so nothing says that its row was deleted. Give the \
                 role of the worker BYPASSRLS, or a policy for all rows"
            ))
        }
        // The next retry queries it again.
        Err(_) => Unseen::Fault,
    }
}

fn report(context: &ConsumerContext, outcomes: &[Outcome], took: Duration) {
    let ConsumerContext { worker, timeout, .. } = context;
    if worker.counters.batch(&timeout.name, ClosingPath::Message, outcomes, took) > 0 {
        worker.events.notify_one();
        worker.health.closed(&timeout.effect);
    }
}
