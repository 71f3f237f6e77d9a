//! Whether the database closes orders, as seen by the batches of one queue.

use std::time::Instant;

use crate::worker::backoff::Backoff;

/// During an outage one batch at a time tries whether it is over. The worker requeues nothing: before RabbitMQ 4.3 a requeue
/// counts towards the delivery limit.
#[derive(Debug)]
pub(super) struct Outage {
    /// Back-off at the start of an outage.
    backoff: Backoff,
    current: Option<(Backoff, Instant)>,
    /// Whether the database answered the last batch.
    answers: bool,
}

impl Outage {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self { backoff, current: None, answers: false }
    }

    pub(super) const fn lasts(&self) -> bool {
        self.current.is_some()
    }

    /// Whether the consumer must receive nothing. A database that answers may fail only for the orders in memory: then only
    /// another order can show that it closes others.
    pub(super) const fn receives_nothing(&self) -> bool {
        self.lasts() && !self.answers
    }

    /// When the next batch may be tried.
    pub(super) fn until(&self) -> Option<Instant> {
        self.current.as_ref().map(|(_, until)| *until)
    }

    /// Records a failed batch, and returns when the next batch may be tried; `None` if an earlier failure has set that instant.
    pub(super) fn failed(&mut self, answers: bool, now: Instant) -> Option<Instant> {
        self.answers = answers;
        let (mut backoff, until) =
            self.current.take().unwrap_or_else(|| (self.backoff.clone(), now));
        if until > now {
            self.current = Some((backoff, until));
            return None;
        }
        let next = now + backoff.pause();
        self.current = Some((backoff, next));
        Some(next)
    }

    /// Records a closed batch; returns whether that ends an outage.
    pub(super) fn ended(&mut self) -> bool {
        self.current.take().is_some()
    }
}
