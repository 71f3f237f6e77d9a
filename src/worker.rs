//! The worker: consumes what is due, closes it in the database, settles. Commit always precedes settle.
//!
//! A session is the connection that shows whether the broker is there, and the tasks that run while it stands; each queue
//! has a connection of its own. When one breaks, everything unsettled goes back to its queue, and after a back-off it is opened again. A database that closes nothing, a queue that is gone and a copy that is not confirmed
//! stop only what needs them. Nothing of an outage burns a retry or parks a message.
//!
//! ```text
//! session ─▶ consume ─▶ inlet ─▶ desk (one per queue) ─▶ closing ─▶ disposition ─▶ ack | wait | copy
//!         ├▶ history  deletes what is older than it is kept
//!         └▶ outgoing publishes the outbox, and what order services wrote with schedule()
//! by table  closes what is due without the broker
//!         ├▶ burst    if much is due, while no messages come, and after a pause
//!         ├▶ sweep    finds what no message came for
//!         └▶ clock_watch  reads the database's clock, by which early notices are held
//! ```

pub(crate) mod backoff;
mod burst;
mod by_table;
mod clock_watch;
pub(crate) mod closing;
mod compat;
pub(crate) mod consume;
mod context;
mod counters;
pub(crate) mod health;
mod history;
pub mod kept_bytes;
mod levels;
mod limits;
pub mod log_lines;
mod on_their_way;
mod outgoing;
mod pager;
mod session;
pub(crate) mod sweep;
mod traces_in_hand;
mod turns;
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

/// Works until a stop is asked for; sessions that end before are followed by others.
///
/// # Errors
/// After the request the drain took longer than `worker.drain`. What is unsettled goes back with the connections.
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

/// One line now and then of what was done, where anything was.
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
