//! One queue's loop: receive, close, settle. What waits, for whatever, is kept beside it.

mod batch_outcome;
mod confirmed_copies;
mod copies;
mod delivery;
mod outage;
mod settle;
mod settle_originals;
mod take_deliveries;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::{
    task::{JoinHandle, JoinSet},
    time::MissedTickBehavior,
};

use super::{
    backoff::Backoff,
    burst::{Burst, Changes, Running},
    channels::Channels,
    context::ConsumerContext,
    counters::count,
    health::Task,
    kept_bytes::KeptBytes,
    limits,
    log_lines::{Parked, Seldom},
    session::SessionEnd,
};
use crate::{
    decisions::{batch::Batch, quarantine::Quarantine, timer_queue::TimerQueue},
    shutdown::Stop,
};
use batch_outcome::Closed;
use copies::Copies;
use delivery::Delivery;
use outage::Outage;

/// The prefetch count of a consumer that does not know yet what is in its queue.
pub(super) const FIRST_PREFETCH: u16 = 1;
/// How often it is looked whether something is stuck.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// So many in full batches are a burst.
const MANY: usize = 500;
/// It looks every second; where it has not for so long, it is stuck.
const ALIVE_WITHIN: Duration = Duration::from_mins(2);
/// After a stop was asked for, or half of the drain time where that is shorter; what is not confirmed by then is given back.
const LAST_CONFIRMS: Duration = Duration::from_secs(5);

/// What one queue's loop works with.
struct Consumer {
    context: Arc<ConsumerContext>,
    channels: Channels,
    batch: Batch<Delivery>,
    closing: FuturesUnordered<JoinHandle<Closed>>,
    /// Looked up again at an instant; in a burst not before it has passed over their orders.
    held: TimerQueue<Delivery>,
    burst: Arc<Burst>,
    burst_changes: Changes,
    copies: Copies,
    outage: Outage,
    parked: Parked,
    /// Not in the log yet.
    guarded: Seldom<String>,
    failing: Seldom<(String, String)>,
    /// When locked orders were named last, and the task that does so.
    locked_reported: Option<Instant>,
    naming: JoinSet<()>,
    quarantine: Quarantine,
    kept: KeptBytes,
    /// By how much the database's clock was set forward before what is held was added.
    set_forward: Duration,
    /// Whether the log says that there are suspects.
    suspected: bool,
    alive: Task,
}

/// Consumes until a stop is asked for or the subscription ends; then gives back what is unsettled.
pub(super) async fn receive(
    context: ConsumerContext,
    channels: Channels,
    stop: Stop,
) -> Result<(), SessionEnd> {
    let timing = &context.worker.timing;
    let copies = Copies::new(Arc::clone(&context.outlet), Arc::clone(&context.levels), timing);
    let alive = context.worker.health.task("consume", channels.queue(), ALIVE_WITHIN);
    let set_forward = context.worker.clock.set_forward();
    let outage = Outage::new(Backoff::new(timing));
    let batch = Batch::new(limits::batch(&context.worker.settings));
    let delivery_limit = context.worker.topology.delivery_limit;
    let quarantine = Quarantine::new(delivery_limit, u32::from(context.prefetch));
    let burst = Arc::clone(&context.worker.bursts[&context.timeout.effect]);
    let mut consumer = Consumer {
        context: Arc::new(context),
        channels,
        batch,
        closing: FuturesUnordered::new(),
        held: TimerQueue::default(),
        burst_changes: burst.changes(),
        burst,
        copies,
        outage,
        parked: Parked::default(),
        guarded: Seldom::default(),
        failing: Seldom::default(),
        locked_reported: None,
        naming: JoinSet::new(),
        quarantine,
        kept: KeptBytes::default(),
        set_forward,
        suspected: false,
        alive,
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
            let (flush_at, look_up_at) = (self.batch.deadline(), self.held_until());
            let send_at = self.copies.next_try();
            let acks_from = self.channels.ack_at();
            tokio::select! {
                biased;
                () = stop.requested() => return Ok(()),
                Some(closed) = self.closing.next() => self.settle(joined(closed)?).await?,
                Some((arrived, failure)) = self.copies.arrived() => {
                    self.copied(arrived, failure.as_ref());
                }
                () = sleep_until(send_at) => self.send_again(Instant::now()),
                () = self.burst_changes.next() => {}
                () = sleep_until(look_up_at), if room => {
                    self.look_up_held();
                    self.receive_ready().await?;
                }
                delivery = self.channels.next_or_acked(receiving) => if let Some(delivery) = delivery? {
                    self.receive(delivery).await?;
                },
                // Nothing more is ready and the database is idle: waiting for company would only make it late.
                () = std::future::ready(()), if self.closing.is_empty() && !self.batch.is_empty() => {
                    self.flush();
                }
                () = sleep_until(flush_at), if room => self.flush(),
                // Below.
                () = sleep_until(acks_from) => {}
                _ = look.tick() => self.look()?,
            }
            self.channels.begin_acks();
            if self.may_receive() && self.channels.is_short() && self.channels.may_replace() {
                self.replace_channel().await?;
            }
        }
    }

    /// Finishes what is in hand: batches are closed and settled, copies confirmed. What waits is given back.
    async fn drain(&mut self) -> Result<(), SessionEnd> {
        self.flush();
        self.channels.send_acks().await?;
        while let Some(closed) = self.closing.next().await {
            self.settle(joined(closed)?).await?;
        }
        self.channels.send_acks().await?;
        let bound = LAST_CONFIRMS.min(self.context.worker.settings.drain.as_duration() / 2);
        let last = tokio::time::Instant::now() + bound;
        while self.copies.are_on_their_way() {
            tokio::select! {
                Some((arrived, failure)) = self.copies.arrived() => {
                    self.copied(arrived, failure.as_ref());
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
    fn bearable_copies(&self) -> usize {
        usize::from(self.context.prefetch).div_ceil(4)
    }

    fn may_receive(&self) -> bool {
        let copies_wait = self.copies.len() >= self.bearable_copies() && !self.copies.are_stuck();
        // What is taken alone is not in hand together with anything.
        let others_in_hand =
            self.quarantine.is_alone() && !(self.closing.is_empty() && self.batch.is_empty());
        let may_take = self.has_room() && !self.outage.lasts() && !self.kept.is_full();
        may_take && !copies_wait && !others_in_hand && !self.is_behind()
    }

    /// Whether so many wait for a burst that the others may wait where they are: the database is to have the machine to itself.
    fn is_behind(&self) -> bool {
        let now = Instant::now();
        self.awaited_burst(now).is_some()
            && self.held.are_due(self.context.worker.settings.batch_size, now)
    }

    /// The burst that what is due waits for. What may have killed workers is closed alone.
    fn awaited_burst(&self, now: Instant) -> Option<Running> {
        self.burst.awaited(now).filter(|_| !self.quarantine.is_alone())
    }

    fn held_until(&self) -> Option<Instant> {
        let next = self.held.next()?;
        let at = match self.awaited_burst(Instant::now()) {
            Some(burst) if burst.passed < Some(next) => next.max(burst.given_up_at()),
            _ => next,
        };
        Some(self.outage.until().map_or(at, |until| until.max(at)))
    }

    /// In a burst those are taken that were due when a pass began that has ended: it has closed their orders, or passed over
    /// them. So nobody waits for longer than two passes, and acks are left for the end of a pass.
    fn look_up_held(&mut self) {
        let (now, size) = (Instant::now(), self.context.worker.settings.batch_size);
        if self.held.are_due(MANY, now) && !self.quarantine.is_alone() {
            self.burst.want(now);
        }
        let until = self.awaited_burst(now).map_or(Some(now), |burst| burst.passed);
        let Some(until) = until else { return };
        for delivery in self.held.take_due(until, size) {
            self.channels.waits(delivery.source, false);
            if delivery.order_id().is_some_and(|id| self.burst.has_closed(id, delivery.received_at))
            {
                count(&self.context.worker.counters.already_final, 1);
                self.channels.finish(delivery.source);
            } else {
                self.ask(delivery, now);
            }
        }
        // It is their instant: nothing that may still come is worth waiting for.
        if self.closing.is_empty() {
            self.flush();
        }
    }

    fn add(&mut self, delivery: Delivery) {
        let now = Instant::now();
        if delivery.order_id().is_some() && self.awaited_burst(now).is_some() {
            self.hold(delivery, now);
        } else {
            self.ask(delivery, now);
        }
    }

    fn ask(&mut self, delivery: Delivery, now: Instant) {
        let Some(full) = self.batch.push(delivery, now) else { return };
        let many = full.len() * (self.closing.len() + 1) >= MANY && !self.quarantine.is_alone();
        if !(many && self.burst.want(now)) {
            return self.close(full);
        }
        let (waiting, open): (Vec<Delivery>, Vec<Delivery>) =
            full.into_iter().partition(|delivery| delivery.order_id().is_some());
        for delivery in waiting {
            self.hold(delivery, now);
        }
        if !open.is_empty() {
            self.close(open);
        }
    }

    fn flush(&mut self) {
        if !self.batch.is_empty() {
            let batch = self.batch.take();
            self.close(batch);
        }
    }

    /// Closes a batch in a task of its own, so that several are on their way while this loop receives.
    fn close(&self, batch: Vec<Delivery>) {
        let context = Arc::clone(&self.context);
        self.closing.push(tokio::spawn(async move { Closed::ask(&context, batch).await }));
    }

    /// What is held comes earlier by as much as the database's clock was set forward since the last call. Called before
    /// more is held as well: its instant is that of the clock as it is now.
    fn follow_clock(&mut self) {
        let set_forward = self.context.worker.clock.set_forward();
        if set_forward > self.set_forward {
            self.held.bring_forward(set_forward.saturating_sub(self.set_forward));
            self.set_forward = set_forward;
        }
    }

    /// # Errors
    /// A channel has ended, and nothing was being received that would have said so.
    fn look(&mut self) -> Result<(), SessionEnd> {
        self.alive.moved();
        self.follow_clock();
        self.report(Instant::now());
        while self.naming.try_join_next().is_some() {}
        self.report_locked(Instant::now());
        Ok(self.channels.check()?)
    }
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
