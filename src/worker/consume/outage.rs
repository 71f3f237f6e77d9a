//! Whether the database closes orders, as the batches of one queue find it.

use std::time::Instant;

use crate::worker::backoff::Backoff;

/// While it lasts nothing is received, and one batch at a time asks whether it is over. Nothing is given back: before
/// RabbitMQ 4.3 that counts towards the delivery limit.
#[derive(Debug)]
pub(super) struct Outage {
    /// As it begins.
    backoff: Backoff,
    current: Option<(Backoff, Instant)>,
}

impl Outage {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self { backoff, current: None }
    }

    pub(super) const fn lasts(&self) -> bool {
        self.current.is_some()
    }

    /// When the next batch may ask.
    pub(super) fn until(&self) -> Option<Instant> {
        self.current.as_ref().map(|(_, until)| *until)
    }

    /// A batch failed. Those that were on their way with it say nothing new: `None`.
    pub(super) fn failed(&mut self, now: Instant) -> Option<Instant> {
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

    /// A batch was closed; whether that ends one.
    pub(super) fn ended(&mut self) -> bool {
        self.current.take().is_some()
    }
}
