//! How long deliveries may wait in the socket for others. Each read wakes the client's thread, and that one the consumer:
//! for every single delivery that costs more than everything else that is done with it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// Of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct Gathering(Arc<State>);

#[derive(Debug, Default)]
struct State {
    within_ms: AtomicU64,
    /// Who waits for an answer.
    hurried: AtomicUsize,
    hurried_once: AtomicBool,
}

/// As long as it is there, nothing waits.
pub(super) struct Hurry(Gathering);

impl Gathering {
    pub(super) fn set(&self, within: Duration) {
        self.0.within_ms.store(u64::try_from(within.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn within(&self) -> Duration {
        if self.is_hurried() {
            return Duration::ZERO;
        }
        Duration::from_millis(self.0.within_ms.load(Ordering::Relaxed))
    }

    /// For a question whose answer comes behind deliveries.
    pub(super) fn hurry(&self) -> Hurry {
        self.0.hurried.fetch_add(1, Ordering::Relaxed);
        Hurry(self.clone())
    }

    /// What is written next is followed by a delivery that nothing else comes with.
    pub(super) fn hurry_once(&self) {
        self.0.hurried_once.store(true, Ordering::Relaxed);
    }

    /// Asked at each write: whether waiting ends with it.
    pub(super) fn ends(&self) -> bool {
        self.0.hurried_once.swap(false, Ordering::Relaxed) || self.is_hurried()
    }

    fn is_hurried(&self) -> bool {
        self.0.hurried.load(Ordering::Relaxed) > 0
    }
}

impl Drop for Hurry {
    fn drop(&mut self) {
        self.0.0.hurried.fetch_sub(1, Ordering::Relaxed);
    }
}
