//! How far a run is, counted as it happens.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Counters of a run, shared by those who count and those who show them.
#[derive(Debug, Default)]
pub struct Progress {
    phase: Mutex<&'static str>,
    has_rows: AtomicBool,
    pub(super) created: AtomicUsize,
    pub(super) paid: AtomicUsize,
    pub(super) refused: AtomicUsize,
    pub(super) closed: AtomicUsize,
}

/// The counters at one moment, in orders.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct OrderCounts {
    /// In the database, and their message was confirmed.
    pub created: usize,
    /// Their payment was taken.
    pub paid: usize,
    /// Their payment came after they were closed.
    pub refused: usize,
    /// Closed by overdue.
    pub closed: usize,
}

impl Progress {
    /// What is being done, and the counters.
    #[must_use]
    pub fn read(&self) -> (&'static str, OrderCounts) {
        let get = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let counts = OrderCounts {
            created: get(&self.created),
            paid: get(&self.paid),
            refused: get(&self.refused),
            closed: get(&self.closed),
        };
        (*self.phase.lock().unwrap_or_else(PoisonError::into_inner), counts)
    }

    /// Whether the run has written anything into the database.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        self.has_rows.load(Ordering::Relaxed)
    }

    pub(super) fn write_rows(&self) {
        self.has_rows.store(true, Ordering::Relaxed);
    }

    pub(super) fn enter(&self, phase: &'static str) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    pub(super) fn count(counter: &AtomicUsize, by: usize) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}
