//! How many messages a second may be sent.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::shutdown::Stop;

/// Hands out moments, so many a second and evenly.
pub(crate) struct Pace {
    between: Duration,
    next: Mutex<Instant>,
}

impl Pace {
    pub(crate) fn new(per_second: NonZeroU32) -> Self {
        Self {
            between: Duration::from_secs(1) / per_second.get(),
            next: Mutex::new(Instant::now()),
        }
    }

    /// Waits for the next moment; false when a stop is requested first. What was missed is not caught up with.
    pub(crate) async fn wait(&self, stop: &Stop) -> bool {
        let at = {
            let mut next = self.next.lock();
            let at = next.max(Instant::now());
            *next = at + self.between;
            at
        };
        stop.pause(at.saturating_duration_since(Instant::now())).await
    }
}
