//! Reads the database's clock again and again: clocks run apart, and people and machines set them.

use std::sync::Arc;

use super::{backoff::jitter, context::Worker, session::SessionEnd};
use crate::shutdown::Stop;

/// Reads it until a stop is asked for. A database that does not answer is others' concern: what was read stays.
pub(super) async fn watch(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    loop {
        let pause = async {
            let _unread = worker.clock.read(&worker.store).await;
            tokio::time::sleep(jitter(worker.timing.clock_every)).await;
        };
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = pause => {}
        }
    }
}
