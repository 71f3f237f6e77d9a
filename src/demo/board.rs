//! How far a run is, counted as it happens, for whoever watches.

use std::sync::{
    Mutex, PoisonError,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

/// Counters of a run.
#[derive(Debug, Default)]
pub struct Board {
    phase: Mutex<&'static str>,
    rows: AtomicBool,
    pub(super) created: AtomicUsize,
    pub(super) paid: AtomicUsize,
    pub(super) refused: AtomicUsize,
    pub(super) closed: AtomicUsize,
}

/// A reading of a [`Board`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Orders in the database whose message was confirmed.
    pub created: usize,
    /// Payments taken.
    pub paid: usize,
    /// Payments that met a closed order.
    pub refused: usize,
    /// Orders that overdue has closed.
    pub closed: usize,
}

impl Board {
    /// What is being done, and the counters.
    #[must_use]
    pub fn read(&self) -> (&'static str, Tally) {
        let get = |counter: &AtomicUsize| counter.load(Ordering::Relaxed);
        let tally = Tally {
            created: get(&self.created),
            paid: get(&self.paid),
            refused: get(&self.refused),
            closed: get(&self.closed),
        };
        (*self.phase.lock().unwrap_or_else(PoisonError::into_inner), tally)
    }

    /// Whether the run has written anything into the database.
    #[must_use]
    pub fn has_rows(&self) -> bool {
        self.rows.load(Ordering::Relaxed)
    }

    pub(super) fn write_rows(&self) {
        self.rows.store(true, Ordering::Relaxed);
    }

    pub(super) fn enter(&self, phase: &'static str) {
        *self.phase.lock().unwrap_or_else(PoisonError::into_inner) = phase;
    }

    pub(super) fn count(counter: &AtomicUsize, by: usize) {
        counter.fetch_add(by, Ordering::Relaxed);
    }
}
