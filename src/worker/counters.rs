//! What a worker has done, counted as it happens: for its log, and in the metrics of the process. Nothing else counts it.

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

/// Written by every task of a worker.
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
    /// What was done until now.
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

    /// A batch was committed. Gives how many orders it closed.
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

    /// An order was closed in a burst before its message was looked at.
    pub(super) fn closed_before(&self) {
        add(&self.already_final, 1);
    }

    /// A message is kept unacked for a short while.
    pub(super) fn held(&self, timeout: &str) {
        add(&self.held, 1);
        telemetry::message_held(timeout);
    }

    /// The copy of a message that waits again was confirmed.
    pub(super) fn put_back(&self, timeout: &str) {
        add(&self.put_back, 1);
        telemetry::put_back(timeout);
    }

    /// The copy of a message that is tried again was confirmed.
    pub(super) fn retried(&self, timeout: &str) {
        add(&self.retried, 1);
        telemetry::retried(timeout);
    }

    /// A message was given up.
    pub(super) fn parked(&self, timeout: &str, label: &Label, why: &Why) {
        add(&self.parked, 1);
        telemetry::parked(timeout, why.class, label, &why.text);
    }

    /// A message was acked because its row was deleted.
    pub(super) fn gone(&self, timeout: &str, label: &Label) {
        add(&self.gone, 1);
        telemetry::gone(timeout, label);
    }
}

fn add(counter: &AtomicU64, by: usize) {
    counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
}
