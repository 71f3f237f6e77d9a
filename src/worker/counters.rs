//! What a worker has done, counted as it happens.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::telemetry;

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
    pub(super) ahead: AtomicU64,
    pub(super) swept: AtomicU64,
}

/// A reading of a [`Counters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Orders this worker brought to their final state because of a message.
    pub closed: u64,
    /// Messages whose order was settled already, ahead of them or otherwise.
    pub already_final: u64,
    /// Messages kept unacked for a short while: early by less than `worker.hold`, or their order was locked.
    pub held: u64,
    /// Messages that came early and wait again in a level.
    pub put_back: u64,
    /// Times that an overdue order was not closed because the effect's own rule guards it.
    pub guarded: u64,
    /// Messages tried again through a retry level.
    pub retried: u64,
    /// Messages in the parking lot, with those that were confirmed for a level that was gone at the next look.
    pub parked: u64,
    /// Orders that were closed ahead of their messages, because many were due at once.
    pub ahead: u64,
    /// Orders the sweep closed: no message came for them.
    pub swept: u64,
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
            ahead: get(&self.ahead),
            swept: get(&self.swept),
        }
    }
}

impl From<Counts> for telemetry::Stopped {
    fn from(counts: Counts) -> Self {
        let Counts {
            closed,
            already_final,
            held,
            put_back,
            guarded,
            retried,
            parked,
            ahead,
            swept,
        } = counts;
        Self { closed, already_final, held, guarded, put_back, retried, parked, ahead, swept }
    }
}

pub(super) fn count(counter: &AtomicU64, by: usize) {
    counter.fetch_add(u64::try_from(by).unwrap_or(u64::MAX), Ordering::Relaxed);
}
