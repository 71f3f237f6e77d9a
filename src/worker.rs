//! The worker: consumes what is due, closes it in the database, settles. Commit always precedes settle.
//!
//! A session is one connection to the broker. When it breaks, everything unsettled goes back to its queue, and after a
//! back-off a new session begins. A database that closes nothing, a queue that is gone and a copy that is not confirmed
//! stop only what needs them. Nothing of an outage burns a retry or parks a message.
//!
//! ```text
//! session ─▶ consumers ─▶ receive (one per queue) ─▶ batch ─▶ closing ─▶ disposition ─▶ settle ─▶ ack | held | copies
//!         ├▶ sweep   finds in the database what no message came for
//!         └▶ relay   publishes the outbox
//! ```

pub(crate) mod backoff;
pub(crate) mod batch;
pub(crate) mod blame;
pub(crate) mod busy;
mod channels;
pub(crate) mod closing;
mod compat;
mod consumers;
pub(crate) mod contention;
mod context;
mod copies;
mod copy_publisher;
mod counters;
pub(crate) mod disposition;
mod due;
mod jitter;
pub(crate) mod kept_bytes;
mod level_watch;
mod limits;
mod outage;
mod parked;
pub(crate) mod quarantine;
pub(crate) mod queues;
pub(crate) mod receive;
pub(crate) mod relay;
pub(crate) mod schedule;
mod session;
mod session_end;
pub(crate) mod settle;
pub(crate) mod splitting;
pub(crate) mod sweep;
pub(crate) mod tags;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use crate::{
    shutdown::{DrainOverrun, Stop},
    telemetry,
    text::error_chain,
};
use backoff::Backoff;
pub use context::Worker;
pub use counters::{Counters, Counts};
pub(crate) use session_end::SessionEnd;

/// A session that lasted so long was a good one: the next back-off starts small again.
const GOOD_SESSION: Duration = Duration::from_secs(10);

/// Works until a stop is asked for; sessions that end before are followed by others.
///
/// # Errors
/// After the request the drain took longer than `worker.drain`. What is unsettled goes back with the connections.
pub async fn run(worker: &Arc<Worker>, stop: &Stop) -> Result<(), DrainOverrun> {
    let deadline = worker.settings.drain.as_duration();
    let on_request = || telemetry::stopping(deadline);
    stop.within(deadline, on_request, sessions(worker, stop)).await?;
    telemetry::stopped(worker.counters.read().into());
    Ok(())
}

async fn sessions(worker: &Arc<Worker>, stop: &Stop) {
    let mut backoff = Backoff::default();
    while !stop.is_requested() {
        let began = Instant::now();
        let Err(end) = session::run(worker, stop).await else { break };
        if began.elapsed() >= GOOD_SESSION {
            backoff = Backoff::default();
        }
        if matches!(end, SessionEnd::Store(_)) {
            worker.store.drop_connections();
        }
        let pause = backoff.pause();
        telemetry::session_ended(&error_chain(&end), pause);
        tokio::select! {
            () = stop.requested() => {}
            () = tokio::time::sleep(pause) => {}
        }
    }
}
