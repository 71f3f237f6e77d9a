//! One timeout's loop: receive, flush, settle, drain.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::task::JoinHandle;

use super::{
    batch::Batch, context::ConsumerContext, counters::count, due::Due, limits,
    session_end::SessionEnd, settle, tags::Tags,
};
use crate::{
    broker::consume::Subscription, order::Outcome, shutdown::Stop, store::orders::ClosingPath,
    telemetry,
};

/// A batch that is being closed.
type Closing = JoinHandle<Result<Vec<(Due, Option<Outcome>)>, SessionEnd>>;

/// Consumes until a stop is asked for or something breaks; then gives back what is unsettled.
pub(super) async fn receive(
    context: ConsumerContext,
    mut subscription: Subscription,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let context = Arc::new(context);
    let worked = work(&context, &mut subscription, &stop).await;
    // Where the channel is gone, the broker gives back by itself.
    let given_back = subscription.give_back_all().await;
    worked.and(given_back.map_err(SessionEnd::from))
}

async fn work(
    context: &Arc<ConsumerContext>,
    subscription: &mut Subscription,
    stop: &Stop,
) -> Result<(), SessionEnd> {
    let settings = &context.worker.settings;
    let mut batch: Batch<Due> = Batch::new(limits::batch(settings));
    let mut tags = Tags::default();
    // Settled as they are done: one that waits for a lock holds up no other.
    let mut closing: FuturesUnordered<Closing> = FuturesUnordered::new();
    loop {
        let room = closing.len() < settings.in_flight;
        let deadline = batch.deadline().map(tokio::time::Instant::from_std);
        tokio::select! {
            biased;
            () = stop.requested() => break,
            Some(closed) = closing.next() => {
                settle::settle(context, subscription, &mut tags, joined(closed)?).await?;
            }
            delivery = subscription.next(), if room => {
                let due = Due::read(delivery?);
                tags.receive(due.tag());
                if let Some(full) = batch.push(due, Instant::now()) {
                    closing.push(close(context, full));
                }
            }
            // Nothing more is ready and the database is idle: waiting for company would only make it late.
            () = std::future::ready(()), if closing.is_empty() && !batch.is_empty() => {
                closing.push(close(context, batch.take()));
            }
            () = sleep_until(deadline), if room && !batch.is_empty() => {
                closing.push(close(context, batch.take()));
            }
        }
    }
    if !batch.is_empty() {
        closing.push(close(context, batch.take()));
    }
    while let Some(closed) = closing.next().await {
        settle::settle(context, subscription, &mut tags, joined(closed)?).await?;
    }
    Ok(())
}

fn joined<T>(
    joined: Result<Result<T, SessionEnd>, tokio::task::JoinError>,
) -> Result<T, SessionEnd> {
    joined.unwrap_or_else(|panic| Err(SessionEnd::Panicked(panic.to_string())))
}

async fn sleep_until(deadline: Option<tokio::time::Instant>) {
    match deadline {
        Some(deadline) => tokio::time::sleep_until(deadline).await,
        None => std::future::pending().await,
    }
}

/// Closes a batch in a task of its own, so that several are on their way while this loop receives.
fn close(context: &Arc<ConsumerContext>, batch: Vec<Due>) -> Closing {
    let context = Arc::clone(context);
    tokio::spawn(async move {
        let began = Instant::now();
        let worker = &context.worker;
        let ids: Vec<_> = batch.iter().filter_map(|due| due.order_id().cloned()).collect();
        let closer = &worker.closers[&context.timeout.effect];
        let outcomes = closer.outcomes(&ids, ClosingPath::Message).await?;
        report(&context, &outcomes, began.elapsed());
        let mut outcomes = outcomes.into_iter();
        let pair = |due: Due| {
            let outcome = due.order_id().is_some().then(|| outcomes.next()).flatten();
            (due, outcome)
        };
        Ok(batch.into_iter().map(pair).collect())
    })
}

fn report(context: &ConsumerContext, outcomes: &[Outcome], took: Duration) {
    let delays = outcomes.iter().filter_map(|outcome| match outcome {
        Outcome::Closed { late } => Some(*late),
        _ => None,
    });
    let (closed, latest) =
        delays.fold((0, Duration::ZERO), |(n, max), late| (n + 1, max.max(late)));
    count(&context.worker.counters.closed, closed);
    if closed > 0 {
        context.worker.events.notify_one();
    }
    telemetry::batch_closed(&context.timeout.name, outcomes.len(), closed, took, latest);
}
