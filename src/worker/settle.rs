//! What follows a commit: put back, park, and then ack. The only place that settles.

use futures_util::future::join_all;

use super::{
    context::ConsumerContext,
    counters::count,
    disposition::Disposition,
    due::Due,
    session_end::SessionEnd,
    tags::{Ack, Tags},
};
use crate::{broker::consume::Subscription, order::Outcome, telemetry};

/// Settles a committed batch. `None` as outcome is a body that could not be read.
///
/// # Errors
/// A copy was not confirmed: that delivery is given back, the others are acked, and the session is to end.
/// Or the channel is gone: then all of them come again, and find their orders final.
pub(super) async fn settle(
    context: &ConsumerContext,
    subscription: &Subscription,
    tags: &mut Tags,
    batch: Vec<(Due, Option<Outcome>)>,
) -> Result<(), SessionEnd> {
    let settled = join_all(batch.iter().map(|(due, outcome)| async move {
        let disposition = due.disposition(outcome.as_ref(), &context.worker.topology);
        let result = carry_out(context, due, outcome.as_ref(), &disposition).await;
        (due, disposition, result)
    }))
    .await;
    report_parked(context, &settled);
    let mut failure = None;
    for (due, _, result) in settled {
        let tag = due.tag();
        match result {
            Ok(()) => tags.finish(tag),
            Err(error) => {
                if tags.forget(tag) {
                    subscription.give_back(tag).await?;
                }
                failure = Some(error);
            }
        }
    }
    ack(subscription, tags).await?;
    failure.map_or(Ok(()), Err)
}

async fn ack(subscription: &Subscription, tags: &mut Tags) -> Result<(), SessionEnd> {
    for frame in tags.acks() {
        match frame {
            Ack::Through(tag) => subscription.ack_through(tag).await?,
            Ack::One(tag) => subscription.ack(tag).await?,
        }
    }
    Ok(())
}

/// One line for all that this batch has parked.
fn report_parked(
    context: &ConsumerContext,
    settled: &[(&Due, Disposition, Result<(), SessionEnd>)],
) {
    let mut parked = settled.iter().filter_map(|settled| match settled {
        (due, Disposition::Park { reason }, Ok(())) => Some((due, reason)),
        _ => None,
    });
    if let Some((first, reason)) = parked.next() {
        let messages = 1 + parked.count();
        telemetry::batch_parked(&context.timeout.name, messages, &first.label(), reason);
    }
}

async fn carry_out(
    context: &ConsumerContext,
    due: &Due,
    outcome: Option<&Outcome>,
    disposition: &Disposition,
) -> Result<(), SessionEnd> {
    let ConsumerContext { worker, timeout, publisher } = context;
    let (topology, counters) = (&worker.topology, &worker.counters);
    match disposition {
        Disposition::Ack => {
            if outcome == Some(&Outcome::AlreadyFinal) {
                count(&counters.already_final, 1);
            }
        }
        Disposition::Delay { level, attempt } => {
            publisher.publish(due.received.put_back(topology, timeout, level, *attempt)).await?;
            telemetry::delayed(&due.label(), level.name(), *attempt);
            let waits = matches!(
                outcome,
                Some(Outcome::NotDue { .. } | Outcome::Busy | Outcome::Postponed { .. })
            );
            count(if waits { &counters.put_back } else { &counters.retried }, 1);
        }
        Disposition::Park { reason } => {
            publisher.publish(due.received.park(topology, timeout, reason)).await?;
            telemetry::parked(&due.label(), reason);
            count(&counters.parked, 1);
        }
    }
    Ok(())
}
