//! The consumer: it receives from every generation of the business queues and of the parking lot, as they come.

use std::{collections::BTreeSet, convert::Infallible, sync::Arc, time::Duration};

use futures_util::FutureExt;
use lapin::message::Delivery;
use tokio::{sync::watch, task::JoinSet};

use super::{ChangeError, book::Book, ledger::Mark, scenario::Scenario};
use crate::{
    broker::{
        Link, Management,
        consume::{ConsumeError, Subscription},
        passive,
    },
    plan::generation::number_of,
};

/// How soon a new generation is consumed from.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Unsettled deliveries of a queue.
const PREFETCH: u16 = 1_000;
/// Deliveries acked at once.
const ACKED_AT_ONCE: usize = 200;

pub(super) struct Follower<'a> {
    pub(super) management: &'a Management,
    pub(super) link: Link,
    pub(super) scenario: &'a Scenario,
    /// A queue that nothing is to be taken from yet.
    pub(super) held: watch::Receiver<Option<String>>,
    pub(super) book: Arc<Book>,
}

/// What a queue is to a message.
#[derive(Clone, Copy)]
enum Place {
    Business,
    ParkingLot,
}

impl Follower<'_> {
    /// Receives for ever; returns why it cannot go on.
    pub(super) async fn run(self) -> ChangeError {
        match self.follow().await {
            Err(error) => error,
        }
    }

    async fn follow(self) -> Result<Infallible, ChangeError> {
        let mut look = tokio::time::interval(LOOK_EVERY);
        let mut consumed = BTreeSet::new();
        // Ends its tasks when it goes.
        let mut lanes = JoinSet::new();
        loop {
            tokio::select! {
                _ = look.tick() => {
                    // No answer is no news.
                    let Ok(stats) = self.management.queue_stats().await else { continue };
                    for queue in stats.into_keys().filter(|queue| !consumed.contains(queue)).collect::<Vec<_>>() {
                        let Some(place) = self.place(&queue) else { continue };
                        if let Some(subscription) = self.subscribe(&queue).await? {
                            consumed.insert(queue.clone());
                            lanes.spawn(receive(queue, subscription, place, Arc::clone(&self.book)));
                        }
                    }
                }
                Some(ended) = lanes.join_next() => match ended {
                    // Deleted by the change.
                    Ok((queue, ConsumeError::Cancelled { .. })) => drop(consumed.remove(&queue)),
                    Ok((_, error)) => return Err(error.into()),
                    Err(panic) => return Err(ChangeError::Panicked(panic.to_string())),
                }
            }
        }
    }

    fn place(&self, queue: &str) -> Option<Place> {
        if self.held.borrow().as_deref() == Some(queue) {
            return None;
        }
        let business = self.scenario.business_queues();
        if business.iter().any(|base| number_of(base, queue).is_some()) {
            return Some(Place::Business);
        }
        number_of(&self.scenario.after.parked_queue(), queue).map(|_| Place::ParkingLot)
    }

    /// `None` where the queue was deleted in the meantime.
    async fn subscribe(&self, queue: &str) -> Result<Option<Subscription>, ConsumeError> {
        match Subscription::open(&self.link, queue, PREFETCH).await {
            Ok(subscription) => Ok(Some(subscription)),
            Err(_) if !passive::queue_exists(&self.link, queue).await? => Ok(None),
            Err(error) => Err(error),
        }
    }
}

async fn receive(
    queue: String,
    mut subscription: Subscription,
    place: Place,
    book: Arc<Book>,
) -> (String, ConsumeError) {
    let Err(error) = take_all(&mut subscription, place, &book).await;
    (queue, error)
}

async fn take_all(
    subscription: &mut Subscription,
    place: Place,
    book: &Book,
) -> Result<Infallible, ConsumeError> {
    loop {
        let mut delivery = subscription.next().await?;
        enter(book, place, &delivery);
        for _ in 1..ACKED_AT_ONCE {
            let Some(next) = subscription.next().now_or_never() else { break };
            delivery = next?;
            enter(book, place, &delivery);
        }
        subscription.ack_through(delivery.delivery_tag).await?;
    }
}

fn enter(book: &Book, place: Place, delivery: &Delivery) {
    let now = book.now();
    let mark: Option<Mark> = serde_json::from_slice(&delivery.data).ok();
    book.with(|ledger| match place {
        Place::Business => ledger.received(mark, now),
        Place::ParkingLot => ledger.parked(mark, now),
    });
}
