//! Trying again what the broker has refused, or did not confirm.
//!
//! A nack says that one queue was full; the others have their copy already, and each attempt makes one more. So one
//! event of a name is tried, and then twice as many each time, until the broker refuses again.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;

use super::{confirm_timeout::Limits, event_fate::Fate, publish_in_order, try_alone::NO_CONFIRM};
use crate::{
    broker::Publisher,
    shutdown::Stop,
    store::{
        outbox::Event,
        outbox::retries::{Regrouped, Retry},
    },
    telemetry,
    text::error_chain,
    worker::{backoff::jitter, context::Worker, unpublished::Unpublished},
};

/// So long the first event of a try waits for its confirm: RabbitMQ gives a nack for a queue that does not answer after 65 s
/// (seen with 4.3), and one that answers again before is heard at once.
const FIRST: Duration = Duration::from_secs(70);
/// A name is taken for 30 s (`sql/outbox_retry_keep.sql`).
const KEEP_EVERY: Duration = Duration::from_secs(10);
/// Events at once, at the most, when the broker takes them again.
const MOST: i64 = 256;
/// Of one name, before others can take its place.
const ROUNDS: u32 = 20;

/// What became of some events of one name.
#[derive(Debug, Default)]
struct Round {
    published: usize,
    refused: bool,
}

/// The events that wait for a name, on a connection of their own.
struct Name<'a> {
    worker: &'a Worker,
    publisher: Publisher,
    exchange: String,
    retry: &'a Retry,
    stop: &'a Stop,
}

/// Tries an event name again, until it is refused or nothing waits for it any more; or a stop is asked for.
pub(super) async fn retry(worker: &Worker, retry: &Retry, stop: &Stop) -> Result<(), Unpublished> {
    let purpose = "overdue worker: refused events";
    let publisher = Publisher::connect_for(&worker.address, purpose, FIRST).await?;
    let exchange = worker.topology.events_exchange();
    Name { worker, publisher, exchange, retry, stop }.rounds().await
}

impl Name<'_> {
    async fn rounds(&self) -> Result<(), Unpublished> {
        let (store, event) = (&self.worker.store, self.retry.event.as_str());
        let (mut published, mut events) = (0, 1);
        for _round in 0..ROUNDS {
            // While a name is forbidden its new events join all the time: the number is to be as new as can be.
            let Some(joined) = store.keep_retry(event).await? else { return Ok(()) };
            let round = self.keep_during(self.round(events)).await?;
            published += round.published;
            if round.refused {
                return Ok(store.retry_again(event, published > 0, true).await?);
            }
            if self.stop.is_requested() {
                break;
            }
            if round.published == 0 {
                return self.end(joined).await;
            }
            events = MOST.min(events * 2);
        }
        // For whoever looks next.
        Ok(store.retry_again(event, published > 0, false).await?)
    }

    /// Does something, and keeps the name meanwhile: another process takes one that nobody keeps.
    async fn keep_during<T>(
        &self,
        work: impl Future<Output = Result<T, Unpublished>>,
    ) -> Result<T, Unpublished> {
        let keep = async {
            loop {
                tokio::time::sleep(KEEP_EVERY).await;
                if let Err(error) = self.worker.store.keep_retry(&self.retry.event).await {
                    return error;
                }
            }
        };
        tokio::select! {
            biased;
            done = work => done,
            error = keep => Err(error.into()),
        }
    }

    /// Nothing waits for the name any more, or what has joined after so many.
    async fn end(&self, joined: i64) -> Result<(), Unpublished> {
        let store = &self.worker.store;
        match store.end_retry(&self.retry.event, joined).await? {
            Some(lasted_ms) => telemetry::event_accepted(&self.retry.event, joined, lasted_ms),
            None => store.retry_again(&self.retry.event, true, false).await?,
        }
        Ok(())
    }

    /// Publishes the oldest events that wait for the name.
    async fn round(&self, limit: i64) -> Result<Round, Unpublished> {
        let (store, waits_for) = (&self.worker.store, self.retry.event.as_str());
        let events = store.refused_events(waits_for, limit).await?;
        let (mut round, is_alone) = (Round::default(), events.len() == 1);
        let (mut published, mut regrouped, mut failure) = (Vec::new(), Vec::new(), None);
        for (event, fate) in self.publish(events).await {
            match fate {
                Fate::Published => published.push(event.row),
                Fate::Refused(refused) if refused.event == waits_for => round.refused = true,
                // A later event of an order, and its own name is refused: it waits there from now on.
                Fate::Refused(refused) if refused.event == event.event => {
                    regrouped.push(regroup(event, refused.reason));
                }
                Fate::Refused(_) | Fate::Untried => {}
                Fate::Unconfirmed if is_alone && event.event != waits_for => {
                    regrouped.push(regroup(event, NO_CONFIRM.to_owned()));
                }
                Fate::Failed(error)
                    if is_alone && error.ended_channel() && event.event != waits_for =>
                {
                    regrouped.push(regroup(event, error.to_string()));
                }
                // No client can send it: it was looked at when it was claimed, so this does not happen; it is not to be lost.
                Fate::Unconfirmed | Fate::Never(_) => round.refused = true,
                Fate::Failed(error) if is_alone && error.ended_channel() => round.refused = true,
                Fate::Failed(error) => failure = failure.or(Some(error)),
            }
        }
        store.forget_refused(&published).await?;
        for event in store.regroup_refused(waits_for, &regrouped).await? {
            let reason = regrouped.iter().find(|order| order.event == event);
            telemetry::event_refused(&event, reason.map_or("", |order| &order.reason));
        }
        round.published = published.len() + regrouped.len();
        match failure {
            None => Ok(round),
            Some(error) => Err(error.into()),
        }
    }

    /// The first of a name waits for long; where a stop is asked for, it is tried again by the next worker.
    async fn publish(&self, events: Vec<Event>) -> Vec<(Event, Fate)> {
        let waits = matches!(&events[..], [event] if event.event == self.retry.event);
        let timing = &self.worker.timing;
        let silence = if waits { FIRST } else { timing.events_silence };
        let limits = Limits { silence, claim: timing.events_claim };
        let publishing = publish_in_order::publish(&self.publisher, &self.exchange, events, limits);
        tokio::select! {
            biased;
            fates = publishing => fates,
            () = self.stop.requested(), if waits => Vec::new(),
        }
    }
}

/// Its order waits for its own name from now on.
fn regroup(event: Event, reason: String) -> Regrouped {
    let Event { order_id, event, .. } = event;
    Regrouped { order_id, event, reason }
}

/// The shortest back-off of a refused event.
const POLL_REFUSED: Duration = Duration::from_secs(1);
/// Event names at once: each has a connection.
const NAMES: usize = 20;

/// Tries refused events again when it is time, until a stop is asked for; `refused` is notified where there are new ones.
/// Other processes set them aside as well.
pub(super) async fn again(worker: &Worker, stop: &Stop, refused: &Notify) {
    let mut tries = FuturesUnordered::new();
    let mut look_at = Instant::now();
    while !stop.is_requested() {
        tokio::select! {
            biased;
            () = stop.requested() => break,
            Some(()) = tries.next(), if !tries.is_empty() => look_at = soon(look_at),
            () = refused.notified() => look_at = soon(look_at),
            () = tokio::time::sleep_until(look_at.into()), if tries.len() < NAMES => {
                let room = i64::try_from(NAMES - tries.len()).unwrap_or_default();
                let due = tokio::select! {
                    biased;
                    () = stop.requested() => break,
                    due = worker.store.claim_retries(room) => due.unwrap_or_else(|error| {
                        telemetry::relay_failed(&error_chain(&error));
                        Vec::new()
                    }),
                };
                let pause = if due.is_empty() { jitter(worker.timing.backoff_longest) } else { POLL_REFUSED };
                look_at = Instant::now() + pause;
                tries.extend(due.into_iter().map(|name| tried(worker, name, stop)));
            }
        }
    }
    // They know that a stop was asked for.
    while tries.next().await.is_some() {}
}

async fn tried(worker: &Worker, name: Retry, stop: &Stop) {
    if let Err(error) = retry(worker, &name, stop).await {
        telemetry::relay_failed(&error_chain(&error));
    }
}

fn soon(look_at: Instant) -> Instant {
    look_at.min(Instant::now() + POLL_REFUSED)
}
