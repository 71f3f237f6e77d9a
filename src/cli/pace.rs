//! So many a second, evenly.

use std::{
    cell::Cell,
    num::NonZeroU32,
    time::{Duration, Instant},
};

use crate::shutdown::Stop;

/// Hands out moments.
pub(super) struct Pace {
    between: Duration,
    next: Cell<Instant>,
}

impl Pace {
    pub(super) fn new(per_second: NonZeroU32) -> Self {
        Self { between: Duration::from_secs(1) / per_second.get(), next: Cell::new(Instant::now()) }
    }

    /// Waits for the next moment; false when a stop is requested first. What was missed is not caught up with.
    pub(super) async fn wait(&self, stop: &Stop) -> bool {
        let at = self.next.get().max(Instant::now());
        self.next.set(at + self.between);
        tokio::select! {
            biased;
            () = stop.requested() => false,
            () = tokio::time::sleep_until(at.into()) => true,
        }
    }
}
