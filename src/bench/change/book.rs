//! The ledger with a clock, shared by those who publish and those who receive.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::ledger::Ledger;

pub(super) struct Book {
    opened: Instant,
    ledger: Mutex<Ledger>,
}

impl Book {
    pub(super) fn open() -> Self {
        Self { opened: Instant::now(), ledger: Mutex::default() }
    }

    /// Time since it was opened.
    pub(super) fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut Ledger) -> T) -> T {
        use_it(&mut self.ledger.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
