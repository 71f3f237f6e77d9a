//! The loop of one queue. A delivery is in one of three states: it waits for an instant, its order is in a batch, or its copy
//! waits for a confirm. Any failure moves it back to the first state, with a later instant.
//!
//! ```text
//! delivery_channels ─▶ take ─▶ waiting ─▶ close_batch ─▶ settle ─▶ ack
//!                     ▲                        ├─▶ wait, for a later instant
//!                     └── refused, returned ◀──┴─▶ copy ─▶ confirmed ─▶ ack
//! ```
//!
//! The instant only decides when the database is queried. The database decides whether an order is overdue: a wrong instant
//! closes nothing early.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use jiff::Timestamp;
use tokio::time::MissedTickBehavior;

use super::{
    batch::{Answered, AtDatabase},
    delivery::{Delivery, PendingRepublish, RepublishKind},
    delivery_channels::{Delivered, DeliveryChannels},
    log::Log,
    outage::Outage,
    waiting::Waiting,
};
use crate::{
    decisions::disposition::{Disposition, Unseen, Waits},
    messaging::PublishError,
    order::Outcome,
    shutdown::Stop,
    store::{FailureKind, StoreError},
    telemetry,
    text::error_chain,
    wire::Message,
    worker::{
        backoff::{Backoff, pause_after, reached},
        contention::BlockingPermit,
        context::ConsumerContext,
        health::{ALIVE_WITHIN, Task, Work},
        limits,
        log_lines::Why,
        session::SessionEnd,
        unconfirmed::{PublishEvent, UnconfirmedPublishes},
    },
};

/// Shorter waits are below the precision of a timer.
const SHORTEST_WAIT: Duration = Duration::from_millis(1);

struct QueueConsumer {
    context: Arc<ConsumerContext>,
    channels: DeliveryChannels,
    waiting: Waiting,
    at_database: AtDatabase,
    copies: UnconfirmedPublishes<PendingRepublish>,
    outage: Outage,
    log: Log,
    /// Whether the queue does not answer.
    is_silent: bool,
    alive: Task,
}

/// Consumes until a stop is requested or the subscription ends; then requeues unsettled messages.
pub(super) async fn consume(
    context: ConsumerContext,
    channels: DeliveryChannels,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let context = Arc::new(context);
    let worker = &context.worker;
    let mut consumer = QueueConsumer {
        channels,
        waiting: Waiting::new(&context),
        at_database: AtDatabase::default(),
        copies: UnconfirmedPublishes::new(Arc::clone(&context.publishers), &worker.timing),
        outage: Outage::new(Backoff::new(&worker.timing)),
        log: Log::new(Arc::clone(&context)),
        is_silent: false,
        alive: worker.health.task("consume", &context.queue, ALIVE_WITHIN),
        context,
    };
    let result = match consumer.work(&stop).await {
        Ok(()) => consumer.drain().await,
        Err(error) => Err(error),
    };
    consumer.log.write(Instant::now());
    let closed = consumer.channels.close().await;
    result.and(closed.map_err(SessionEnd::from))
}

impl QueueConsumer {
    async fn work(&mut self, stop: &Stop) -> Result<(), SessionEnd> {
        let mut look = tokio::time::interval(limits::LOOK_EVERY);
        look.set_missed_tick_behavior(MissedTickBehavior::Delay);
        loop {
            if self.receives() {
                self.channels.renew();
            }
            let batch_at = self.next_batch();
            let at_once = if self.receives() { self.context.worker.settings.batch_size } else { 0 };
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                Some(answered) = self.at_database.next() => self.settle(answered?),
                Some(heard) = self.copies.next() => self.copied(heard),
                () = reached(batch_at) => self.close_batch(),
                delivered = self.channels.next(at_once) => self.take(delivered?),
                // The next iteration decides again which deliveries are due.
                () = self.waiting.burst_changed() => {}
                _ = look.tick() => self.look()?,
            }
        }
    }

    /// Closes a last batch, then waits until batches are settled and copies are confirmed. Waiting deliveries are requeued.
    async fn drain(&mut self) -> Result<(), SessionEnd> {
        self.close_batch();
        self.channels.send_acks();
        while let Some(answered) = self.at_database.next().await {
            self.settle(answered?);
        }
        self.channels.send_acks();
        let last = limits::last_confirms(&self.context.worker.settings);
        while self.copies.len() > 0 {
            tokio::select! {
                Some(heard) = self.copies.next() => self.copied(heard),
                () = reached(Some(last)) => break,
            }
        }
        Ok(())
    }

    fn receives(&self) -> bool {
        // The most unconfirmed copies; copies that have waited longer than `copies_stuck` do not count.
        let copies = usize::from(self.context.prefetch).div_ceil(4) + self.copies.silent();
        self.at_database.batches() < self.batches_at_once()
            && !self.outage.receives_nothing()
            && !self.channels.is_full()
            && self.copies.len() < copies
            && !self.waiting.is_behind(Instant::now())
    }

    fn batches_at_once(&self) -> usize {
        let ConsumerContext { worker, timeout, .. } = &*self.context;
        if self.outage.lasts() { 1 } else { limits::in_flight(&worker.settings, timeout) }
    }

    fn take(&mut self, delivered: Vec<Delivered>) {
        let (now, mut are_late) = (Instant::now(), false);
        for (receipt, received) in delivered {
            let delivery = Delivery::read(receipt, received, &self.context.worker);
            self.log.delivered(&delivery);
            let at = self.early_until(&delivery, now);
            if at.is_some() {
                self.count_held();
            } else {
                are_late = true;
            }
            self.wait(delivery, at.unwrap_or(now));
        }
        if are_late {
            self.waiting.are_late();
        }
    }

    /// The instant until which the delivery is early. A deadline beyond the limit is queried at once: a wrong `due_at` must not
    /// delay its order for longer than the worker keeps a delivery.
    fn early_until(&self, delivery: &Delivery, now: Instant) -> Option<Instant> {
        // An order that was tried before is usually overdue.
        if delivery.order_id().is_none() || delivery.was_tried() {
            return None;
        }
        let at = self.context.worker.clock.surely(delivery.due_at()?)?;
        let Waits { hold, lead, .. } = self.waits();
        (at > now && at - now <= hold.max(lead)).then_some(at)
    }

    fn wait(&mut self, mut delivery: Delivery, until: Instant) {
        // A due delivery does not count as waiting: only the batch before it delays it.
        self.channels.waits(&mut delivery.receipt, until > Instant::now());
        self.waiting.add(until, delivery);
    }

    /// When the next batch must be closed.
    fn next_batch(&self) -> Option<Instant> {
        let batches = (self.at_database.batches(), self.batches_at_once());
        let at = self.waiting.next_batch(batches, Instant::now())?;
        Some(self.outage.until().map_or(at, |until| at.max(until)))
    }

    /// Closes the due orders in a new task, so that several batches are at the database while this loop receives.
    fn close_batch(&mut self) {
        let now = Instant::now();
        let mut batch = Vec::new();
        for mut delivery in self.waiting.take(now) {
            if self.waiting.was_closed(&delivery) {
                self.context.worker.counters.closed_before();
                self.channels.ack(delivery.receipt);
                self.closes_again();
                continue;
            }
            self.channels.waits(&mut delivery.receipt, false);
            if let Some(turn) = self.turn(&delivery, now) {
                delivery.turns += 1;
                self.at_database.close_in_turn(&self.context, delivery, turn);
            } else {
                batch.push(delivery);
            }
        }
        if !batch.is_empty() {
            self.at_database.close(&self.context, batch);
        }
    }

    fn turn(&self, delivery: &Delivery, now: Instant) -> Option<BlockingPermit> {
        let ConsumerContext { worker, timeout, .. } = &*self.context;
        let may_have_one = !self.outage.lasts() && delivery.stays_busy(now);
        may_have_one.then(|| worker.closers[&timeout.effect].turn(now)).flatten()
    }

    /// Settles a batch, or keeps it if the database did not close it.
    fn settle(&mut self, Answered { batch, outcomes, unseen }: Answered) {
        let outcomes = match outcomes {
            Ok(outcomes) => outcomes,
            Err(error) => return self.keep(batch, &error),
        };
        if outcomes.iter().any(Option::is_some) {
            self.closes_again();
        }
        let now = Instant::now();
        for (delivery, outcome) in batch.into_iter().zip(outcomes) {
            self.settle_one(delivery, (outcome.as_ref(), &unseen), now);
        }
        self.log.write(now);
    }

    /// Ends an outage. Also called if a burst has closed all waiting orders: then no batch would end the outage.
    fn closes_again(&mut self) {
        if self.outage.ended() {
            telemetry::closing_again(&self.context.timeout.name);
        }
    }

    /// Keeps a batch unacked while the database closes nothing.
    fn keep(&mut self, batch: Vec<Delivery>, error: &StoreError) {
        let now = Instant::now();
        if let Some(until) = self.outage.failed(error.is_answer(), now) {
            let reason = error_chain(error);
            let timeout = &self.context.timeout.name;
            telemetry::closing_failed(timeout, batch.len(), &reason, until.duration_since(now));
            if error.kind() == FailureKind::Unavailable {
                self.context.worker.store.drop_connections();
            }
        }
        // The batch waits until then: failing messages must not be the only ones that are received.
        let until = self.outage.until().unwrap_or(now);
        for delivery in batch {
            self.wait(delivery, until);
        }
    }

    fn settle_one(
        &mut self,
        mut delivery: Delivery,
        (outcome, unseen): (Option<&Outcome>, &Unseen),
        now: Instant,
    ) {
        if let Some(outcome) = outcome {
            self.log.answered(&delivery, outcome);
        }
        let ConsumerContext { worker, timeout, levels, .. } = &*self.context;
        let waits = self.waits().after(now.saturating_duration_since(delivery.received_at));
        let route = |wait| levels.wait(&worker.topology, timeout, wait, now).ok();
        match delivery.disposition(outcome, unseen, waits, route) {
            Disposition::Ack => self.channels.ack(delivery.receipt),
            Disposition::AckGone => {
                worker.counters.gone(&timeout.name, &delivery.label());
                self.channels.ack(delivery.receipt);
            }
            Disposition::Hold { wait } => {
                if delivery.tries.busy == 0 {
                    self.count_held();
                }
                let is_locked = outcome == Some(&Outcome::Busy);
                delivery.tries.busy = delivery.tries.busy.saturating_add(u32::from(is_locked));
                let since = delivery.locked.map_or(now, |(first, _)| first);
                delivery.locked = is_locked.then_some((since, now));
                self.wait(delivery, now + wait.max(SHORTEST_WAIT));
            }
            Disposition::Delay { route, tries, is_retry } => {
                let (label, attempt) = (delivery.label(), tries.attempt);
                telemetry::delayed(&label, &route.routing_key, route.holds, attempt);
                let message = delivery.received.put_back(route.clone(), attempt, tries.guarded);
                self.copy(delivery, RepublishKind::Delay { route, is_retry }, message);
            }
            Disposition::Park { class, reason } => self.park(delivery, Why { class, text: reason }),
        }
    }

    /// How long messages may wait in memory at present, and how long a retry waits.
    fn waits(&self) -> Waits<'_> {
        let worker = &self.context.worker;
        let has_bytes = self.channels.may_keep();
        let has_room = has_bytes && self.channels.may_wait();
        Waits {
            retry: &worker.topology.retry,
            hold: if has_room { worker.longest_hold() } else { Duration::ZERO },
            lead: if has_bytes { worker.topology.lead.longest() } else { Duration::ZERO },
        }
    }

    fn count_held(&self) {
        self.context.worker.counters.held(&self.context.timeout.name);
    }

    /// The broker parks the original itself, without a reason, if its body was too large to keep.
    fn park(&mut self, delivery: Delivery, why: Why) {
        if delivery.received.body_left_out().is_some() {
            self.parked(&delivery, why);
            return self.channels.dead_letter(delivery.receipt);
        }
        let (topology, timeout) = (&self.context.worker.topology, &self.context.timeout);
        let message = delivery.received.park(topology, timeout, &why.text, now());
        self.copy(delivery, RepublishKind::Park(why), message);
    }

    fn parked(&mut self, delivery: &Delivery, why: Why) {
        let label = delivery.label();
        self.context.worker.counters.parked(&self.context.timeout.name, &label, &why);
        self.log.parked(label, why);
    }

    fn copy(&mut self, mut delivery: Delivery, purpose: RepublishKind, message: Message) {
        self.channels.waits(&mut delivery.receipt, true);
        let place = purpose.place().to_owned();
        self.copies.send(&place, message, PendingRepublish { delivery, purpose });
    }

    /// A confirmed copy settles its delivery. After any other event, the order is queried again.
    fn copied(&mut self, heard: PublishEvent<PendingRepublish>) {
        let now = Instant::now();
        match heard {
            PublishEvent::Confirmed(copy) => self.put_back(copy),
            PublishEvent::ConfirmOverdue(failure) => self.copies_failed(&failure, now),
            PublishEvent::Abandoned(copy) => self.channels.give_back(copy.delivery.receipt),
            PublishEvent::Failed(
                PendingRepublish { delivery, purpose: RepublishKind::Delay { route, .. } },
                PublishError::Returned { .. },
            ) => {
                self.context.levels.returned(&route, now);
                self.wait(delivery, now);
            }
            PublishEvent::Failed(PendingRepublish { mut delivery, .. }, failure) => {
                let longest = self.context.worker.timing.backoff_longest;
                let pause = pause_after(delivery.refused, longest);
                delivery.refused += 1;
                self.wait(delivery, now + pause);
                self.copies_failed(&failure, now);
            }
        }
    }

    fn put_back(&mut self, PendingRepublish { delivery, purpose }: PendingRepublish) {
        let (counters, timeout) = (&self.context.worker.counters, &self.context.timeout.name);
        match purpose {
            RepublishKind::Delay { is_retry: false, .. } => counters.put_back(timeout),
            RepublishKind::Delay { is_retry: true, .. } => counters.retried(timeout),
            RepublishKind::Park(why) => self.parked(&delivery, why),
        }
        self.channels.ack(delivery.receipt);
    }

    fn copies_failed(&mut self, failure: &PublishError, now: Instant) {
        let (reason, timeout) = (error_chain(failure), &self.context.timeout.name);
        if self.copies.failed(now) {
            let refused = self.waiting.iter().filter(|delivery| delivery.refused > 0);
            telemetry::copies_wait(timeout, refused.count() + self.copies.len(), &reason);
        }
        self.context.worker.health.failed(Work::Copies, timeout, &reason);
    }

    /// Asks whether the queue exists, and reports its silence. A connection that the broker has blocked takes no copies.
    fn listen(&mut self, now: Instant) {
        let ConsumerContext { worker, timeout, queue, publishers, .. } = &*self.context;
        // The timer of the questions may fire a little early.
        let silence = worker.timing.broker_silence.mul_f64(0.9);
        let unheard = self.channels.ask();
        let unheard = (now.saturating_duration_since(unheard) >= silence).then_some(unheard);
        let since = unheard.or_else(|| publishers.is_blocked().then_some(now));
        if since.is_some() != self.is_silent {
            self.is_silent = since.is_some();
            worker.health.silent(queue, &timeout.name, since);
        }
    }

    /// An error if a channel ended while the loop was not receiving from it.
    fn look(&mut self) -> Result<(), SessionEnd> {
        let now = Instant::now();
        self.alive.moved();
        self.waiting.follow_clock();
        self.log.write(now);
        self.log.locked(self.waiting.iter(), now);
        self.listen(now);
        let (health, timeout) = (&self.context.worker.health, &self.context.timeout.name);
        if self.copies.work_again(now) && health.works(Work::Copies, timeout) {
            telemetry::copies_work(timeout);
        }
        Ok(self.channels.check()?)
    }
}

/// The time of parking, for people who read the parking lot.
#[expect(clippy::disallowed_methods, reason = "no order is decided by it")]
fn now() -> Timestamp {
    Timestamp::now()
}
