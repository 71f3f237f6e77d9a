//! Whether the database closes orders, as the batches of one queue find it.

use std::time::Instant;

use crate::worker::backoff::Backoff;

/// While it lasts one batch at a time asks whether it is over. Nothing is given back: before RabbitMQ 4.3 that counts towards
/// the delivery limit.
#[derive(Debug)]
pub(super) struct Outage {
    /// As it begins.
    backoff: Backoff,
    current: Option<(Backoff, Instant)>,
    /// Whether the database has answered the last batch.
    answers: bool,
}

impl Outage {
    pub(super) const fn new(backoff: Backoff) -> Self {
        Self { backoff, current: None, answers: false }
    }

    pub(super) const fn lasts(&self) -> bool {
        self.current.is_some()
    }

    /// Whether nothing is received. A database that answers may fail for the orders in hand alone: then only one that is not among
    /// them shows that it closes others.
    pub(super) const fn receives_nothing(&self) -> bool {
        self.lasts() && !self.answers
    }

    /// When the next batch may ask.
    pub(super) fn until(&self) -> Option<Instant> {
        self.current.as_ref().map(|(_, until)| *until)
    }

    /// A batch failed. Those that were on their way with it say nothing new: `None`.
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

    /// A batch was closed; whether that ends one.
    pub(super) fn ended(&mut self) -> bool {
        self.current.take().is_some()
    }
}
