//! What the broker has refused, or did not confirm, beside the others: a queue that does not answer is waited for only here.

use std::time::{Duration, Instant};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::Notify;

use super::retry::retry;
use crate::{
    shutdown::Stop,
    store::refused_events::Retry,
    telemetry,
    text::error_chain,
    worker::{context::Worker, jitter},
};

/// The shortest back-off of a refused event.
const POLL_REFUSED: Duration = Duration::from_secs(1);
/// Event names at once: each has a connection.
const NAMES: usize = 20;

/// Tries refused events again when it is time, until a stop is asked for; `refused` is notified where there are new ones.
/// Other processes set them aside as well.
pub(super) async fn again(worker: &Worker, stop: &Stop, refused: &Notify) {
    let mut tries = FuturesUnordered::new();
    let mut look_at = Instant::now();
    while !stop.is_requested() {
        tokio::select! {
            biased;
            () = stop.requested() => break,
            Some(()) = tries.next(), if !tries.is_empty() => look_at = soon(look_at),
            () = refused.notified() => look_at = soon(look_at),
            () = tokio::time::sleep_until(look_at.into()), if tries.len() < NAMES => {
                let room = i64::try_from(NAMES - tries.len()).unwrap_or_default();
                let due = tokio::select! {
                    biased;
                    () = stop.requested() => break,
                    due = worker.store.claim_retries(room) => due.unwrap_or_else(|error| {
                        telemetry::relay_failed(&error_chain(&error));
                        Vec::new()
                    }),
                };
                let pause = if due.is_empty() { jitter::up_to(worker.timing.backoff_longest) } else { POLL_REFUSED };
                look_at = Instant::now() + pause;
                tries.extend(due.into_iter().map(|name| tried(worker, name, stop)));
            }
        }
    }
    // They know that a stop was asked for.
    while tries.next().await.is_some() {}
}

async fn tried(worker: &Worker, name: Retry, stop: &Stop) {
    if let Err(error) = retry(worker, &name, stop).await {
        telemetry::relay_failed(&error_chain(&error));
    }
}

fn soon(look_at: Instant) -> Instant {
    look_at.min(Instant::now() + POLL_REFUSED)
}
