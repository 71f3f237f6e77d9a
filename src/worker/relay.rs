//! The outbox's way to the broker: claim, publish, forget what was confirmed.
//!
//! One relay publishes at a time, whichever process it is in; so the events of an order are published in the order of their
//! ids. What cannot be published goes out of the way of the others (`outbox_refused`): an event that the broker refuses, or
//! does not confirm, is tried again after a while, beside the others; one that can never be published stays there with its
//! reason.

mod confirm_timeout;
mod event_fate;
mod publish_in_order;
mod retry;
mod try_alone;
mod wait_for_events;

use std::{
    mem,
    sync::{Arc, PoisonError},
    time::{Duration, Instant},
};

use tokio::sync::Notify;

use super::{
    backoff::jitter,
    context::Worker,
    health::{Task, Work},
    session::SessionEnd,
    undeleted::Undeleted,
    unpublished::Unpublished,
};
use crate::{
    broker::{PublishError, Publisher},
    decisions::floor::Floor,
    shutdown::Stop,
    store::{
        StoreError,
        forget::Published,
        outbox::{Event, PassedOver, Refusal, claim::Claim},
    },
    telemetry,
    text::error_chain,
};
use confirm_timeout::Limits;
use event_fate::{Fate, Refused};
use try_alone::Left;

/// Events of one transaction: its cost is shared by all of them.
const CLAIM: i64 = 2_000;

/// Each transaction has a limit of less than a minute; a full outbox takes many of them, and each moves.
const ALIVE_WITHIN: Duration = Duration::from_mins(10);

/// A broker that restarts ends some channels in a row.
const MOST_LOST: u32 = 2;

/// Publishes what is in the outbox until a stop is asked for.
///
/// A failure is logged and tried again after a while, on a connection of its own: a broker that blocks publishers
/// (memory or disk alarm) does not end the session. The events wait in the outbox.
pub(super) async fn relay(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    if worker.events_settings.publish {
        let refused = Notify::new();
        tokio::join!(publish(&worker, &stop, &refused), retry::again(&worker, &stop, &refused));
    }
    Ok(())
}

/// Publishes events for the first time; `refused` is notified where some were set aside.
async fn publish(worker: &Worker, stop: &Stop, refused: &Notify) {
    let exchange = worker.topology.events_exchange();
    let mut relay = Relay {
        worker,
        publisher: None,
        exchange,
        alive: worker.health.task("relay", "", ALIVE_WITHIN),
        refused,
        patience: worker.timing.events_silence,
        lost: 0,
        undeleted: undeleted(worker),
        floor: Floor::default(),
    };
    let mut polls = false;
    loop {
        let relayed = relay.relay_all(stop, polls).await;
        match &relayed {
            Err(error) => {
                let reason = error_chain(error);
                telemetry::relay_failed(&reason);
                worker.health.failed(Work::Relay, "", &reason);
                // After a failover ids are given out again, to events that are not published.
                if matches!(error, Unpublished::Store(error) if !error.is_answer()) {
                    relay.floor = Floor::default();
                    relay.undeleted = undeleted(worker);
                }
            }
            // What cannot be deleted was published, and is passed over.
            Ok(()) if relay.undeleted.is_empty() && worker.health.works(Work::Relay, "") => {
                telemetry::relay_works();
            }
            Ok(()) => {}
        }
        tokio::select! {
            () = stop.requested() => return,
            () = worker.events.notified(), if relayed.is_ok() => {
                wait_for_events::gather(worker, stop).await;
                polls = false;
            }
            // The batches of this process notify; this finds events of other processes that died, and is the back-off.
            () = tokio::time::sleep(jitter(worker.timing.backoff_longest)) => polls = true,
        }
    }
}

fn undeleted(worker: &Worker) -> Undeleted {
    Undeleted::new(Published::Events, worker.timing.undeleted_again)
}

/// What a relay keeps from one look into the outbox to the next.
struct Relay<'a> {
    worker: &'a Worker,
    /// Empty where it failed, so that the next time begins with a new connection.
    publisher: Option<Publisher>,
    exchange: String,
    alive: Task,
    refused: &'a Notify,
    /// How long no confirm may come. Each time that the broker was only slow makes it longer: what was given up is published
    /// once more.
    patience: Duration,
    /// Claims in a row whose channel ended, and nobody knows why.
    lost: u32,
    undeleted: Undeleted,
    floor: Floor,
}

impl Relay<'_> {
    /// Publishes until the outbox is empty. With `polls` nobody has said that there is anything in it.
    async fn relay_all(&mut self, stop: &Stop, mut polls: bool) -> Result<(), Unpublished> {
        while !stop.is_requested() {
            self.alive.moved();
            let without = self.passed_over().await?;
            if mem::take(&mut polls) && !self.worker.store.has_events(&without).await? {
                break;
            }
            let publisher = match self.publisher.take().filter(|publisher| !publisher.is_closed()) {
                Some(publisher) => publisher,
                None => Publisher::connect(&self.worker.address, "overdue worker: events").await?,
            };
            let claim = tokio::select! {
                biased;
                // Dropped, the statement is cancelled.
                () = stop.requested() => break,
                claim = self.worker.store.claim_events(CLAIM, &without) => claim?,
            };
            let mut more = false;
            let mut left = Left::Nothing;
            if let Some(claim) = claim {
                more = claim.is_full;
                self.floor.saw(claim.last);
                left = self.publish_claimed(&publisher, claim).await?;
                self.patience =
                    confirm_timeout::next(self.patience, left == Left::Late, &self.worker.timing);
            }
            if left == Left::Nothing {
                self.publisher = Some(publisher);
            }
            // Behind those without a confirm others have waited.
            if !more && left == Left::Nothing {
                break;
            }
        }
        Ok(())
    }

    /// What need not be read, for the watch as well; once a minute everything is looked at.
    async fn passed_over(&mut self) -> Result<PassedOver, StoreError> {
        let store = &self.worker.store;
        self.undeleted.try_again(store).await?;
        let undeleted = self.undeleted.rows();
        if self.floor.is_due(Instant::now(), self.worker.timing.outbox_floor_every) {
            let (first, writers) = store.outbox_floor(&undeleted).await?;
            self.floor.looked(first, writers);
        }
        let passed_over = PassedOver { floor: self.floor.row(), undeleted };
        let known = &self.worker.passed_over;
        known.lock().unwrap_or_else(PoisonError::into_inner).clone_from(&passed_over);
        Ok(passed_over)
    }

    fn limits(&self) -> Limits {
        Limits { silence: self.patience, claim: self.worker.timing.events_claim }
    }

    /// One event may end the channel of all others each time.
    fn doubt(&mut self, fates: &mut [(Event, Fate)]) {
        self.lost = if try_alone::is_lost(fates) { self.lost + 1 } else { 0 };
        if self.lost > MOST_LOST {
            self.lost = 0;
            try_alone::try_alone(fates);
        }
    }

    async fn publish_claimed(
        &mut self,
        publisher: &Publisher,
        mut claim: Claim,
    ) -> Result<Left, Unpublished> {
        let refusals = mem::take(&mut claim.faulty);
        let waiting = mem::take(&mut claim.waiting);
        let events = mem::take(&mut claim.events);
        let mut sorted = Sorted { refusals, ..Sorted::default() };
        let mut fates =
            publish_in_order::publish(publisher, &self.exchange, events, self.limits()).await;
        self.doubt(&mut fates);
        let judged = try_alone::judge(self.worker, publisher, &self.exchange, &mut fates).await;
        sorted.refusals.extend(event_fate::set_aside(waiting, &fates));
        for (event, fate) in fates {
            sorted.add(event.row, fate);
        }
        let Sorted { published, refusals, failure } = sorted;
        let begin = match claim.finish(&published, &refusals).await {
            Ok(begin) => begin,
            Err(error) => {
                if error.is_answer() {
                    self.undeleted.forget(&self.worker.store, &published).await?;
                }
                return Err(error.into());
            }
        };
        report(&refusals, &begin);
        if !refusals.is_empty() {
            self.refused.notify_one();
        }
        match failure {
            Some(error) => Err(error.into()),
            None => judged,
        }
    }
}

/// `begin` are the event names whose refusal begins here.
fn report(refusals: &[Refusal], begin: &[String]) {
    let mut never = refusals.iter().filter(|refusal| refusal.waits_for.is_none());
    if let Some(Refusal { row, reason, .. }) = never.next() {
        telemetry::events_unpublishable(1 + never.count(), *row, reason);
    }
    for event in begin {
        let is_it = |refusal: &&Refusal| refusal.waits_for.as_ref() == Some(event);
        let reason = refusals.iter().find(is_it).map_or("", |refusal| &refusal.reason);
        telemetry::event_refused(event, reason);
    }
}

/// The events of one claim, by what became of them. What was not published, or is not known to have been, stays where it is.
#[derive(Default)]
struct Sorted {
    published: Vec<i64>,
    refusals: Vec<Refusal>,
    failure: Option<PublishError>,
}

impl Sorted {
    fn add(&mut self, row: i64, fate: Fate) {
        match fate {
            Fate::Published => self.published.push(row),
            Fate::Refused(Refused { event, reason, forbidden }) => {
                self.refusals.push(Refusal { row, waits_for: Some(event), reason, forbidden });
            }
            Fate::Never(reason) => self.refusals.push(Refusal::for_ever(row, reason)),
            Fate::Untried | Fate::Unconfirmed => {}
            Fate::Failed(error) => {
                self.failure.get_or_insert(error);
            }
        }
    }
}
