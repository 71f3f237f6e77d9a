//! Limits the messages per second.

use std::{
    num::NonZeroU32,
    time::{Duration, Instant},
};

use parking_lot::Mutex;

use crate::shutdown::Stop;

/// Spaces messages evenly.
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

    /// Waits for the next slot; false if a stop is requested first. Missed slots are not made up.
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
