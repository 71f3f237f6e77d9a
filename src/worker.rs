//! The worker: consumes due messages, closes their orders in the database, and settles the messages. Commit always precedes
//! settle.
//!
//! A session is the connection that shows whether the broker is there, and the tasks that run while it is open. Each queue
//! has a connection of its own. If a connection breaks, the broker requeues its unsettled messages, and the worker opens it
//! again after a back-off. A database that closes nothing, a missing queue and an unconfirmed copy stop only the tasks that
//! need them. An outage uses no retry and parks no message.
//!
//! ```text
//! session ─▶ consume ─▶ delivery_channels ─▶ queue_consumer (one per queue) ─▶ closing ─▶ disposition ─▶ ack | wait | copy
//!         ├▶ history  deletes rows that are older than `worker.keep_history`
//!         └▶ outgoing publishes the outbox, and the notices that schedule() wrote
//! by table  closes due orders without the broker
//!         ├▶ burst    if many orders are due, while no messages come, and after a pause
//!         ├▶ sweep    closes overdue orders without a message
//!         └▶ clock_watch  reads the database's clock, by which early notices wait
//! ```

pub(crate) mod backoff;
mod burst;
mod by_table;
mod clock_watch;
pub(crate) mod closing;
mod compat;
pub(crate) mod consume;
mod contention;
mod context;
mod counters;
pub(crate) mod health;
mod history;
pub mod kept_bytes;
mod levels;
mod limits;
pub mod log_lines;
mod outgoing;
mod pager;
mod session;
pub(crate) mod sweep;
mod traces_in_hand;
mod unconfirmed;
pub(crate) mod watch;

use std::{sync::Arc, time::Instant};

use crate::{
    shutdown::{DrainOverrun, Stop},
    telemetry,
    text::error_chain,
};
use backoff::Backoff;
pub use context::Worker;
pub use counters::{Counters, Counts};
pub(crate) use session::SessionEnd;

/// Works until a stop is requested; a session that ends before is followed by another one.
///
/// # Errors
/// The drain took longer than `worker.drain` after the request. The broker requeues unsettled messages when the connections
/// close.
pub async fn run(worker: &Arc<Worker>, stop: &Stop) -> Result<(), DrainOverrun> {
    let deadline = worker.settings.drain.as_duration();
    let on_request = || telemetry::stopping(deadline);
    let work = async {
        tokio::join!(sessions(worker, stop), close_by_table(worker, stop), log_work(worker, stop))
    };
    stop.within(deadline, on_request, work).await?;
    worker.spans.end().await;
    telemetry::stopped(worker.counters.read());
    Ok(())
}

/// Logs one line per interval about the work, if there was any.
async fn log_work(worker: &Worker, stop: &Stop) {
    let mut before = worker.counters.read();
    while stop.pause(worker.timing.log_work_every).await {
        let now = worker.counters.read();
        let latest = telemetry::observed::latest_to_log();
        if now != before {
            telemetry::worked(before, now, latest);
        }
        before = now;
    }
}

async fn close_by_table(worker: &Arc<Worker>, stop: &Stop) {
    let mut backoff = Backoff::new(&worker.timing);
    while let Err(panic) = session::close_by_table(worker, stop).await {
        let pause = backoff.pause();
        telemetry::sweep_ended(&error_chain(&panic), pause);
        if !stop.pause(pause).await {
            return;
        }
    }
}

async fn sessions(worker: &Arc<Worker>, stop: &Stop) {
    let mut backoff = Backoff::new(&worker.timing);
    while !stop.is_requested() {
        let began = Instant::now();
        let Err(end) = session::run(worker, stop).await else { break };
        if began.elapsed() >= worker.timing.good_session {
            backoff = Backoff::new(&worker.timing);
        }
        if matches!(end, SessionEnd::Store(_)) {
            worker.store.drop_connections();
        }
        let pause = backoff.pause();
        telemetry::session_ended(end.cause(), &error_chain(&end), pause);
        worker.health.session_ended(error_chain(&end));
        stop.pause(pause).await;
    }
}
