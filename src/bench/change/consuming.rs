//! The consumer: it receives from every generation of the business queues and of the parking lot, as they are created.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use futures_util::FutureExt;
use tokio::{sync::watch, task::JoinSet};

use super::{
    error::MeasureError, message_log::MessageTag, scenario::Scenario, shared_log::SharedLog,
};
use crate::{
    broker::{
        Link, Management,
        consume::{ConsumeError, Subscription},
        passive,
    },
    plan::generation::number_of,
    wire::Received,
};

/// How soon a new generation is consumed from.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Unsettled deliveries of a queue.
const PREFETCH: u16 = 1_000;
/// Deliveries acked at once.
const ACKED_AT_ONCE: usize = 200;

pub(super) struct Consumer<'a> {
    pub(super) management: &'a Management,
    pub(super) scenario: &'a Scenario,
    /// A queue that is not to be consumed yet.
    pub(super) held: watch::Receiver<Option<String>>,
    pub(super) log: Arc<SharedLog>,
}

/// The kind of a queue that a message is received from.
#[derive(Clone, Copy)]
enum ReceivedFrom {
    Business,
    ParkingLot,
}

impl Consumer<'_> {
    /// Receives until it fails; returns why.
    pub(super) async fn run(self) -> MeasureError {
        match self.consume().await {
            Err(error) => error,
        }
    }

    async fn consume(self) -> Result<Infallible, MeasureError> {
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut consumed = BTreeSet::new();
        // Ends its tasks when it goes.
        let mut consumers = JoinSet::new();
        loop {
            tokio::select! {
                _ = look.tick() => {
                    // Without an answer nothing is known to be new.
                    let Ok(stats) = self.management.queue_stats().await else { continue };
                    for queue in stats.into_keys().filter(|queue| !consumed.contains(queue)).collect::<Vec<_>>() {
                        let Some(from) = self.kind_of(&queue) else { continue };
                        if let Some(subscribed) = self.subscribe(&queue).await? {
                            consumed.insert(queue.clone());
                            consumers.spawn(receive(queue, subscribed, from, Arc::clone(&self.log)));
                        }
                    }
                }
                Some(ended) = consumers.join_next() => match ended {
                    // Deleted by the change.
                    Ok((queue, ConsumeError::Cancelled { .. })) => drop(consumed.remove(&queue)),
                    Ok((_, error)) => return Err(error.into()),
                    Err(panic) => return Err(MeasureError::Panicked(panic.to_string())),
                }
            }
        }
    }

    fn kind_of(&self, queue: &str) -> Option<ReceivedFrom> {
        if self.held.borrow().as_deref() == Some(queue) {
            return None;
        }
        let business = self.scenario.business_queues();
        if business.iter().any(|base| number_of(base, queue).is_some()) {
            return Some(ReceivedFrom::Business);
        }
        number_of(&self.scenario.after.parked_queue(), queue).map(|_| ReceivedFrom::ParkingLot)
    }

    /// On a connection of its own: where a quorum queue is deleted in the middle of `basic.consume` the broker closes the
    /// connection. `None` then, and where the queue was deleted before: another look shows it.
    async fn subscribe(&self, queue: &str) -> Result<Option<(Link, Subscription)>, MeasureError> {
        let link = Link::open(self.management.address(), "overdue bench, consuming").await?;
        match Subscription::open(&link, queue, PREFETCH).await {
            Ok(subscription) => Ok(Some((link, subscription))),
            Err(_) if !link.is_connected() => Ok(None),
            Err(_) if !passive::queue_exists(&link, queue).await? => Ok(None),
            Err(error) => Err(error.into()),
        }
    }
}

async fn receive(
    queue: String,
    (_link, mut subscription): (Link, Subscription),
    from: ReceivedFrom,
    log: Arc<SharedLog>,
) -> (String, ConsumeError) {
    let Err(error) = take_all(&mut subscription, from, &log).await;
    (queue, error)
}

async fn take_all(
    subscription: &mut Subscription,
    from: ReceivedFrom,
    log: &SharedLog,
) -> Result<Infallible, ConsumeError> {
    loop {
        let mut delivery = subscription.next().await?;
        record(log, from, &delivery);
        for _ in 1..ACKED_AT_ONCE {
            let Some(next) = subscription.next().now_or_never() else { break };
            delivery = next?;
            record(log, from, &delivery);
        }
        subscription.ack_through(delivery.tag).await?;
    }
}

fn record(log: &SharedLog, from: ReceivedFrom, delivery: &Received) {
    let now = log.now();
    let tag: Option<MessageTag> = serde_json::from_slice(&delivery.body).ok();
    log.with(|log| match from {
        ReceivedFrom::Business => log.received(tag, now),
        ReceivedFrom::ParkingLot => log.parked(tag, now),
    });
}
