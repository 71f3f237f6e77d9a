//! Delays deliveries in the socket, to read several at once. Each read wakes the client's thread, which wakes the consumer:
//! for a single delivery, this costs more than all other work on it.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

/// The state of one connection.
#[derive(Clone, Debug, Default)]
pub(super) struct ReadCoalescer(Arc<State>);

#[derive(Debug, Default)]
struct State {
    within_ms: AtomicU64,
    /// Callers that wait for an answer.
    hurried: AtomicUsize,
    hurried_once: AtomicBool,
}

/// Deliveries are not delayed while this guard exists.
pub(super) struct LowLatencyGuard(ReadCoalescer);

impl ReadCoalescer {
    pub(super) fn set(&self, within: Duration) {
        self.0.within_ms.store(u64::try_from(within.as_millis()).unwrap_or(0), Ordering::Relaxed);
    }

    pub(super) fn within(&self) -> Duration {
        if self.is_hurried() {
            return Duration::ZERO;
        }
        Duration::from_millis(self.0.within_ms.load(Ordering::Relaxed))
    }

    /// Stops the delay for a request whose answer follows deliveries.
    pub(super) fn low_latency(&self) -> LowLatencyGuard {
        self.0.hurried.fetch_add(1, Ordering::Relaxed);
        LowLatencyGuard(self.clone())
    }

    /// Stops the delay after the next write, because only one delivery follows it.
    pub(super) fn read_soon_once(&self) {
        self.0.hurried_once.store(true, Ordering::Relaxed);
    }

    /// Whether the current write ends the delay.
    pub(super) fn ends(&self) -> bool {
        self.0.hurried_once.swap(false, Ordering::Relaxed) || self.is_hurried()
    }

    fn is_hurried(&self) -> bool {
        self.0.hurried.load(Ordering::Relaxed) > 0
    }
}

impl Drop for LowLatencyGuard {
    fn drop(&mut self) {
        self.0.0.hurried.fetch_sub(1, Ordering::Relaxed);
    }
}
