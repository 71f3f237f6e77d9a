//! Reads the database's clock regularly: clocks drift, and people and machines set them.

use std::{sync::Arc, time::Instant};

use super::{backoff::jitter, context::Worker, session::SessionEnd};
use crate::{
    shutdown::Stop,
    store::{StoreError, clock::WAITS_AFTER_LEAP},
    telemetry,
};

/// Reads the clock until a stop is requested. If the database does not answer, the last reading stays valid; other tasks
/// report the outage.
pub(super) async fn watch(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    loop {
        let pause = async {
            let _unread = read(&worker).await;
            tokio::time::sleep(jitter(worker.timing.clock_every)).await;
        };
        tokio::select! {
            biased;
            () = stop.requested() => return Ok(()),
            () = pause => {}
        }
    }
}

/// Reads the clock once, and logs a leap forward, e.g. after a failover to a machine with a wrong clock: without a pause, sweep
/// and bursts would close orders before their deadline.
pub(super) async fn read(worker: &Worker) -> Result<(), StoreError> {
    if let Some(leap) = worker.clock.read(&worker.store).await? {
        telemetry::clock_leapt(leap, WAITS_AFTER_LEAP);
    }
    telemetry::observed::clock_leap(worker.clock.leap(Instant::now()).unwrap_or_default());
    Ok(())
}
