//! The message log with a clock, shared by those who publish and those who receive.

use std::{
    sync::{Mutex, PoisonError},
    time::{Duration, Instant},
};

use super::message_log::MessageLog;

pub(super) struct SharedLog {
    opened: Instant,
    log: Mutex<MessageLog>,
}

impl SharedLog {
    pub(super) fn open() -> Self {
        Self { opened: Instant::now(), log: Mutex::default() }
    }

    /// Time since it was opened.
    pub(super) fn now(&self) -> Duration {
        self.opened.elapsed()
    }

    pub(super) fn with<T>(&self, use_it: impl FnOnce(&mut MessageLog) -> T) -> T {
        use_it(&mut self.log.lock().unwrap_or_else(PoisonError::into_inner))
    }
}
