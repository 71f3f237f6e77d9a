//! How many bytes of deliveries the consumer of one queue has in memory.
//!
//! A prefetch count bounds messages, not bytes: 16 channels with 2,000 messages of 64 KiB each are 2 GiB. So what is in
//! hand is counted. From half of the bound on, nothing waits here that can wait in a level; at the bound nothing more
//! is received until something is settled. What the broker has sent by then is at most one more prefetch count.

use std::sync::{
    Arc,
    atomic::{AtomicUsize, Ordering},
};

/// Bytes that are in hand at the most; due notices, of a hundred bytes each, never come near it.
pub const BOUND: usize = 64 * 1024 * 1024;

/// The bytes of all deliveries in hand.
#[derive(Debug, Default)]
pub struct KeptBytes(Arc<AtomicUsize>);

/// The part of one delivery. It ends when it is dropped.
#[derive(Debug)]
#[must_use = "what is dropped is no longer counted"]
pub struct Reservation {
    all: Arc<AtomicUsize>,
    bytes: usize,
}

impl KeptBytes {
    /// Counts a delivery as long as its part is there.
    pub fn keep(&self, bytes: usize) -> Reservation {
        self.0.fetch_add(bytes, Ordering::Relaxed);
        Reservation { all: Arc::clone(&self.0), bytes }
    }

    /// Whether there is room for messages that wait.
    pub fn may_wait(&self) -> bool {
        self.0.load(Ordering::Relaxed) < BOUND / 2
    }

    /// Whether nothing more is to be received.
    pub fn is_full(&self) -> bool {
        self.0.load(Ordering::Relaxed) >= BOUND
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.all.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}
