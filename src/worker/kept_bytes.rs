//! How many bytes of deliveries the consumer of one queue has in memory.
//!
//! A prefetch count limits messages, not bytes: 16 channels with 2,000 messages of 64 KiB each are 2 GiB. Therefore the bytes
//! are counted. From half of the bound on, messages wait in a level if they can. At the bound nothing is received until a
//! delivery is settled. The broker has sent at most one more prefetch count until then.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Limit of bytes in memory; due notices, of a hundred bytes each, never come near it.
pub const BOUND: usize = 64 * 1024 * 1024;

/// The bytes of all deliveries in memory.
#[derive(Debug, Default)]
pub struct KeptBytes(Arc<AtomicUsize>);

/// The bytes of one delivery, counted until this is dropped.
#[derive(Debug)]
#[must_use = "what is dropped is no longer counted"]
pub struct Reservation {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl KeptBytes {
    /// Counts a delivery until the reservation is dropped.
    pub fn keep(&self, bytes: usize) -> Reservation {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Reservation { all: Arc::clone(&self.0), bytes }
    }

    /// Whether there is room for waiting messages.
    pub fn may_wait(&self) -> bool {
        self.0.load(Ordering::Relaxed) < BOUND / 2
    }

    /// Whether nothing more may be received.
    pub fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= BOUND
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
