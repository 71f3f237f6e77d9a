//! One queue's loop: receive, close, settle. What waits, for whatever, is kept beside it.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{task::JoinHandle, time::MissedTickBehavior};

use super::{
    batch::Batch,
    channels::{Channels, Source},
    context::ConsumerContext,
    copies::Copies,
    counters::count,
    due::Due,
    kept_bytes::KeptBytes,
    limits,
    outage::Outage,
    parked::Parked,
    quarantine::{Quarantine, Step},
    schedule::Schedule,
    session_end::SessionEnd,
};
use crate::{
    order::Outcome,
    shutdown::Stop,
    store::{StoreError, orders::ClosingPath},
    telemetry,
    wire::Received,
};

/// The prefetch count of a consumer that does not know yet what is in its queue.
pub(super) const FIRST_PREFETCH: u16 = 1;
/// How often it is looked whether something is stuck.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// After a stop was asked for; what is not confirmed by then is given back.
const LAST_CONFIRMS: Duration = Duration::from_secs(2);

/// A batch, and what the database said of it. `None` is a body that could not be read.
pub(super) struct Closed {
    pub(super) batch: Vec<Due>,
    pub(super) outcomes: Result<Vec<Option<Outcome>>, StoreError>,
}

/// What one queue's loop works with.
pub(super) struct Consumer {
    pub(super) context: Arc<ConsumerContext>,
    pub(super) channels: Channels,
    batch: Batch<Due>,
    closing: FuturesUnordered<JoinHandle<Closed>>,
    /// Looked up again at an instant.
    pub(super) held: Schedule<Due>,
    pub(super) copies: Copies,
    pub(super) outage: Outage,
    pub(super) parked: Parked,
    quarantine: Quarantine,
    pub(super) kept: KeptBytes,
    /// Whether the log says that there are suspects.
    suspected: bool,
}

/// Consumes until a stop is asked for or the subscription ends; then gives back what is unsettled.
pub(super) async fn receive(
    context: ConsumerContext,
    channels: Channels,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let copies = Copies::new(Arc::clone(&context.copies));
    let batch = Batch::new(limits::batch(&context.worker.settings));
    let delivery_limit = context.worker.topology.delivery_limit;
    let quarantine = Quarantine::new(delivery_limit, u32::from(context.prefetch));
    let mut consumer = Consumer {
        context: Arc::new(context),
        channels,
        batch,
        closing: FuturesUnordered::new(),
        held: Schedule::default(),
        copies,
        outage: Outage::default(),
        parked: Parked::default(),
        quarantine,
        kept: KeptBytes::default(),
        suspected: false,
    };
    let worked = match consumer.work(&stop).await {
        Ok(()) => consumer.drain().await,
        Err(error) => Err(error),
    };
    consumer.parked.report(&consumer.context.timeout.name);
    // Where the channel is gone, the broker gives back by itself.
    let given_back = consumer.channels.give_back_all().await;
    worked.and(given_back.map_err(SessionEnd::from))
}

impl Consumer {
    async fn work(&mut self, stop: &Stop) -> Result<(), SessionEnd> {
        let mut look = tokio::time::interval(LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            let (room, receiving) = (self.has_room(), self.may_receive());
            let flush_at = self.batch.deadline();
            let (look_up_at, send_at) = (self.held_until(), self.copies.next_try());
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                Some(closed) = self.closing.next() => self.settle(joined(closed)?).await?,
                Some((confirmed, failure)) = self.copies.confirmed() => {
                    self.copied(confirmed, failure.as_ref());
                }
                () = sleep_until(send_at) => self.send_again(Instant::now()),
                () = sleep_until(look_up_at), if room => self.look_up_held(),
                delivery = self.channels.next(), if receiving => {
                    let (source, received) = delivery?;
                    self.take(source, received).await?;
                }
                // Nothing more is ready and the database is idle: waiting for company would only make it late.
                () = std::future::ready(()), if self.closing.is_empty() && !self.batch.is_empty() => {
                    self.flush();
                }
                () = sleep_until(flush_at), if room => self.flush(),
                _ = look.tick() => self.look()?,
            }
            self.channels.send_acks().await?;
            if self.may_receive() && self.channels.is_short() && self.channels.may_replace() {
                self.replace_channel().await?;
            }
        }
    }

    async fn take(&mut self, source: Source, received: Received) -> Result<(), SessionEnd> {
        let may_widen = self.channels.may_replace();
        let step = match received.deliveries() {
            Some(deliveries) => {
                self.report_suspect(deliveries);
                self.quarantine.receive(deliveries, may_widen)
            }
            None => Step::Take,
        };
        if step == Step::Narrow {
            self.channels.give_back(source).await?;
        } else {
            self.add(Due::read(source, received, &self.kept));
        }
        if step == Step::Take { Ok(()) } else { self.replace_channel().await }
    }

    /// Goes on receiving on another channel.
    async fn replace_channel(&mut self) -> Result<(), SessionEnd> {
        let alone = self.quarantine.is_alone();
        let prefetch = if alone { 1 } else { self.context.prefetch };
        for (source, received) in self.channels.replace(prefetch).await? {
            let suspect = received.deliveries().is_some_and(|n| self.quarantine.is_suspect(n));
            if alone && suspect {
                self.channels.give_back(source).await?;
            } else {
                self.add(Due::read(source, received, &self.kept));
            }
        }
        self.suspected &= alone;
        Ok(())
    }

    fn report_suspect(&mut self, deliveries: u32) {
        if self.quarantine.is_suspect(deliveries) && !self.suspected {
            telemetry::suspected(&self.context.timeout.name, deliveries);
            self.suspected = true;
        }
    }

    /// Finishes what is in hand: batches are closed and settled, copies confirmed. What waits is given back.
    async fn drain(&mut self) -> Result<(), SessionEnd> {
        self.flush();
        while let Some(closed) = self.closing.next().await {
            self.settle(joined(closed)?).await?;
        }
        self.channels.send_acks().await?;
        let last = tokio::time::Instant::now() + LAST_CONFIRMS;
        while self.copies.is_sending() {
            tokio::select! {
                Some((confirmed, failure)) = self.copies.confirmed() => {
                    self.copied(confirmed, failure.as_ref());
                }
                () = tokio::time::sleep_until(last) => break,
            }
        }
        Ok(self.channels.send_acks().await?)
    }

    fn has_room(&self) -> bool {
        let in_flight = self.context.worker.settings.in_flight;
        self.closing.len() < if self.outage.lasts() { 1 } else { in_flight }
    }

    /// Copies that are on their way may become no more than this, as long as they get through.
    pub(super) fn bearable_copies(&self) -> usize {
        usize::from(self.context.prefetch).div_ceil(4)
    }

    fn may_receive(&self) -> bool {
        let copies_wait = self.copies.len() >= self.bearable_copies() && !self.copies.are_stuck();
        // What is taken alone is not in hand together with anything.
        let others_in_hand =
            self.quarantine.is_alone() && !(self.closing.is_empty() && self.batch.is_empty());
        let may_take = self.has_room() && !self.outage.lasts() && !self.kept.is_full();
        may_take && !copies_wait && !others_in_hand
    }

    fn held_until(&self) -> Option<Instant> {
        let next = self.held.next()?;
        Some(self.outage.until().map_or(next, |until| until.max(next)))
    }

    fn look_up_held(&mut self) {
        let size = self.context.worker.settings.batch_size;
        for due in self.held.take_due(Instant::now(), size) {
            self.channels.waits(due.source, false);
            self.add(due);
        }
    }

    fn add(&mut self, due: Due) {
        if let Some(full) = self.batch.push(due, Instant::now()) {
            self.close(full);
        }
    }

    fn flush(&mut self) {
        if !self.batch.is_empty() {
            let batch = self.batch.take();
            self.close(batch);
        }
    }

    /// Closes a batch in a task of its own, so that several are on their way while this loop receives.
    fn close(&self, batch: Vec<Due>) {
        let context = Arc::clone(&self.context);
        self.closing.push(tokio::spawn(async move {
            let outcomes = outcomes(&context, &batch).await;
            Closed { batch, outcomes }
        }));
    }

    /// # Errors
    /// A channel has ended, and nothing was being received that would have said so.
    fn look(&mut self) -> Result<(), SessionEnd> {
        self.parked.report(&self.context.timeout.name);
        Ok(self.channels.check()?)
    }
}

async fn outcomes(
    context: &ConsumerContext,
    batch: &[Due],
) -> Result<Vec<Option<Outcome>>, StoreError> {
    let began = Instant::now();
    let worker = &context.worker;
    let ids: Vec<_> = batch.iter().filter_map(|due| due.order_id().cloned()).collect();
    let closer = &worker.closers[&context.timeout.effect];
    let outcomes = closer.outcomes(&ids, ClosingPath::Message).await?;
    report(context, &outcomes, began.elapsed());
    let mut outcomes = outcomes.into_iter();
    Ok(batch.iter().map(|due| due.order_id().and_then(|_| outcomes.next())).collect())
}

fn joined<T>(joined: Result<T, tokio::task::JoinError>) -> Result<T, SessionEnd> {
    joined.map_err(|panic| SessionEnd::Panicked(panic.to_string()))
}

async fn sleep_until(at: Option<Instant>) {
    match at {
        Some(at) => tokio::time::sleep_until(at.into()).await,
        None => std::future::pending().await,
    }
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
