//! The deliveries of one queue that wait for an instant, and when a batch of them is closed. During a burst they also wait
//! for its pass.

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::delivery::Delivery;
use crate::{
    decisions::{
        batch::{BatchPolicy, MANY},
        timer_queue::TimerQueue,
    },
    worker::{
        burst::{Burst, Changes},
        context::{ConsumerContext, Worker},
    },
};

pub(super) struct Waiting {
    worker: Arc<Worker>,
    /// Deliveries by the instant at which their orders are queried.
    queue: TimerQueue<Delivery>,
    burst: Arc<Burst>,
    changes: Changes,
    /// How far the database's clock was set forward when the waiting deliveries were added.
    set_forward: Duration,
}

impl Waiting {
    pub(super) fn new(context: &ConsumerContext) -> Self {
        let worker = Arc::clone(&context.worker);
        let burst = Arc::clone(&worker.bursts[&context.timeout.effect]);
        Self {
            queue: TimerQueue::default(),
            changes: burst.changes(),
            burst,
            set_forward: worker.clock.set_forward(),
            worker,
        }
    }

    pub(super) fn add(&mut self, until: Instant, delivery: Delivery) {
        self.follow_clock();
        self.queue.add(until, delivery);
    }

    /// Makes waiting deliveries due earlier by as much as the database's clock was set forward since the last call. Must be
    /// called before a delivery is added, because its instant is by the present clock.
    pub(super) fn follow_clock(&mut self) {
        let set_forward = self.worker.clock.set_forward();
        if set_forward > self.set_forward {
            self.queue.bring_forward(set_forward.saturating_sub(self.set_forward));
            self.set_forward = set_forward;
        }
    }

    /// Requests a reading of the table, because deliveries were due on arrival.
    pub(super) fn are_late(&self) {
        self.burst.look();
    }

    /// Whether a full batch waits for a burst.
    pub(super) fn is_behind(&self, now: Instant) -> bool {
        self.burst.awaited(now).is_some() && self.has_batch(now)
    }

    fn has_batch(&self, now: Instant) -> bool {
        self.queue.are_due(self.worker.settings.batch_size, now)
    }

    /// When the next batch must be closed, with `closing` batches at the database and a limit of `at_once`.
    pub(super) fn next_batch(
        &self,
        (closing, at_once): (usize, usize),
        now: Instant,
    ) -> Option<Instant> {
        let first = self.queue.next()?;
        let batches = BatchPolicy {
            closing,
            at_once,
            linger: self.worker.settings.batch_linger.as_duration(),
            age: self.worker.settings.batch_age.as_duration(),
            burst: self.burst.awaited(now),
        };
        batches.next(first, first <= now && self.has_batch(now))
    }

    /// Takes a batch of due deliveries. During a burst these are the deliveries that were due when its last completed pass
    /// began: the pass closed or skipped their orders. So a delivery waits for at most two passes, and acks are left for the
    /// end of a pass.
    pub(super) fn take(&mut self, now: Instant) -> Vec<Delivery> {
        let size = self.worker.settings.batch_size;
        if self.queue.are_due(MANY, now) {
            self.burst.want(now);
        } else if self.queue.are_due(size, now) {
            self.burst.look();
        }
        let burst = self.burst.awaited(now);
        let until = burst.map_or(Some(now), |burst| burst.passed);
        until.map(|until| self.queue.take_due(until, size)).unwrap_or_default()
    }

    /// Whether a burst has closed the order after the delivery arrived, or at the deadline in the message.
    pub(super) fn was_closed(&self, delivery: &Delivery) -> bool {
        let Delivery { received_at, .. } = delivery;
        delivery
            .order_id()
            .is_some_and(|id| self.burst.has_closed(id, *received_at, delivery.due_at()))
    }

    /// Returns when a burst has begun, has completed a pass, or is over.
    pub(super) async fn burst_changed(&mut self) {
        self.changes.next().await;
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Delivery> {
        self.queue.iter()
    }
}
