//! What a worker has done, counted as it happens.

use std::sync::atomic::{AtomicU64, Ordering};

pub use crate::telemetry::observed::Counts;

/// Written by every task of a worker.
#[derive(Debug, Default)]
pub struct Counters {
    pub(super) closed: AtomicU64,
    pub(super) already_final: AtomicU64,
    pub(super) held: AtomicU64,
    pub(super) put_back: AtomicU64,
    pub(super) guarded: AtomicU64,
    pub(super) retried: AtomicU64,
    pub(super) parked: AtomicU64,
    pub(super) burst: AtomicU64,
    pub(super) swept: AtomicU64,
}

impl Counters {
    /// What was done until now.
    #[must_use]
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
            burst: get(&self.burst),
            swept: get(&self.swept),
        }
    }
}

pub(super) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
}
