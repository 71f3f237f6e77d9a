//! How far a run is, counted as it happens.

use std::sync::{Mutex, PoisonError};

/// What is known of a run while it plays, shared by those who count and those who show it.
#[derive(Debug, Default)]
pub(crate) struct Progress(Mutex<State>);

/// A run at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct State {
    /// What is being done.
    pub phase: &'static str,
    /// Whether the run has written anything into the database.
    pub has_rows: bool,
    /// Orders in the database whose message was confirmed.
    pub created: usize,
    /// Orders whose payment was taken.
    pub paid: usize,
    /// Orders whose payment came after they were closed.
    pub refused: usize,
    /// Orders that overdue closed.
    pub closed: usize,
}

impl Progress {
    /// As it is now.
    #[must_use]
    pub(crate) fn read(&self) -> State {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn update(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    pub(super) fn enter(&self, phase: &'static str) {
        self.update(|state| state.phase = phase);
    }
}
