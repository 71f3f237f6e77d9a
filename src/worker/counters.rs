//! Counts the work of a worker as it happens, for its log and for the metrics of the process. No other module counts it.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use super::log_lines::Why;
pub use crate::telemetry::observed::Counts;
use crate::{
    order::Outcome,
    store::orders::ClosingPath,
    telemetry::{self, Label},
};

/// Counters that every task of a worker increments.
#[derive(Debug, Default)]
pub struct Counters {
    closed: AtomicU64,
    already_final: AtomicU64,
    held: AtomicU64,
    put_back: AtomicU64,
    guarded: AtomicU64,
    retried: AtomicU64,
    parked: AtomicU64,
    gone: AtomicU64,
    burst: AtomicU64,
    swept: AtomicU64,
}

impl Counters {
    /// Counts since the worker was made.
    pub fn read(&self) -> Counts {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Counts {
            closed: get(&self.closed),
            already_final: get(&self.already_final),
            held: get(&self.held),
            put_back: get(&self.put_back),
            guarded: get(&self.guarded),
            retried: get(&self.retried),
            parked: get(&self.parked),
            gone: get(&self.gone),
            burst: get(&self.burst),
            swept: get(&self.swept),
        }
    }

    /// Counts a committed batch. Returns the number of closed orders.
    pub(super) fn batch(
        &self,
        timeout: &str,
        path: ClosingPath,
        outcomes: &[Outcome],
        took: Duration,
    ) -> usize {
        telemetry::batch_closed(timeout, path.as_str(), outcomes, took);
        let count = |is: fn(&&Outcome) -> bool| outcomes.iter().filter(is).count();
        let closed = count(|outcome| matches!(outcome, Outcome::Closed { .. }));
        match path {
            ClosingPath::Burst => add(&self.burst, closed),
            ClosingPath::Sweep => add(&self.swept, closed),
            ClosingPath::Message => {
                add(&self.closed, closed);
                add(&self.already_final, count(|it| matches!(it, Outcome::AlreadyFinal)));
                add(&self.guarded, count(|it| it.is_guarded()));
            }
        }
        closed
    }

    /// Counts an order that a burst closed before the consumer read its message.
    pub(super) fn closed_before(&self) {
        add(&self.already_final, 1);
    }

    /// Counts a message that is kept unacked for a short time.
    pub(super) fn held(&self, timeout: &str) {
        add(&self.held, 1);
        telemetry::message_held(timeout);
    }

    /// Counts a confirmed copy of a message that waits again.
    pub(super) fn put_back(&self, timeout: &str) {
        add(&self.put_back, 1);
        telemetry::put_back(timeout);
    }

    /// Counts a confirmed copy of a message that is retried.
    pub(super) fn retried(&self, timeout: &str) {
        add(&self.retried, 1);
        telemetry::retried(timeout);
    }

    /// Counts a parked message.
    pub(super) fn parked(&self, timeout: &str, label: &Label, why: &Why) {
        add(&self.parked, 1);
        telemetry::parked(timeout, why.class, label, &why.text);
    }

    /// Counts a message that was acked because its row was deleted.
    pub(super) fn gone(&self, timeout: &str, label: &Label) {
        add(&self.gone, 1);
        telemetry::gone(timeout, label);
    }
}

fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
}
