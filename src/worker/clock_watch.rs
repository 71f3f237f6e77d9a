//! Reads the database's clock again and again: clocks run apart, and people and machines set them.

use std::{sync::Arc, time::Duration};

use super::{backoff::jitter, context::Worker, session::SessionEnd};
use crate::shutdown::Stop;

/// A worker that is behind with its work doubts the clock, too, and for nothing.
const AFTER_DOUBT: Duration = Duration::from_millis(500);

/// Reads it until a stop is asked for. A database that does not answer is others' concern: what was read stays.
pub(super) async fn watch(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    loop {
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            _unread = worker.clock.read(&worker.store) => {}
        }
        let doubted = async {
            tokio::time::sleep(AFTER_DOUBT).await;
            worker.clock.doubted().await;
        };
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = doubted => {}
            () = tokio::time::sleep(jitter(worker.timing.clock_every)) => {}
        }
    }
}
