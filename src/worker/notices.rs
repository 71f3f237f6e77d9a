//! The way of the notices that order services wrote with their orders: read, publish, forget what was confirmed.
//!
//! One worker does so for each timeout, by a lock of its session with the database. It looks several times a second: a
//! transaction that would notify it waits for others when it commits.

mod doubts;
mod floor;
mod publish_rows;
mod routes;
mod sending;

use std::{
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    backoff::{Backoff, jitter},
    context::Worker,
    health::{Task, Work},
    session::SessionEnd,
    unpublished::Unpublished,
};
use crate::{
    config::PublishScheduled,
    shutdown::Stop,
    store::schedule::{Notices, ScheduleSession},
    telemetry,
    text::error_chain,
};
use publish_rows::{Left, Outgoing, Passed};

/// Between two looks while there is something: one look is for the rows of many commits. The levels let go 2 s early.
const PACE: Duration = Duration::from_millis(50);
/// The same while there is nothing, and between two tries to lead what another worker leads: four cheap statements per second.
const IDLE: Duration = Duration::from_millis(250);
/// Before what the broker does not take is tried again.
const LEFT: Duration = Duration::from_secs(1);
/// A page takes less than a minute, also without a confirm, and each moves.
const ALIVE_WITHIN: Duration = Duration::from_mins(10);

/// Publishes what `schedule()` writes until a stop is asked for, where the tables are there.
///
/// A failure is logged and tried again after a while; it does not end the session of the worker.
pub(super) async fn publish(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    if worker.schedule.publish == PublishScheduled::Off {
        return Ok(());
    }
    let mut removed = Vec::new();
    let alive = worker.health.task("schedule", "", ALIVE_WITHIN);
    while !stop.is_requested() {
        if let Err(error) = in_one_session(&worker, &alive, &mut removed, &stop).await {
            failed(&worker, &error);
        }
        pause(&stop, jitter(worker.timing.backoff_longest)).await;
    }
    Ok(())
}

/// Ends where the tables are missing, or a stop was asked for. `removed`: the timeouts of which it was said that they are.
async fn in_one_session(
    worker: &Worker,
    alive: &Task,
    removed: &mut Vec<String>,
    stop: &Stop,
) -> Result<(), Unpublished> {
    alive.moved();
    if let Some(lacks) = worker.store.schedule_lacks(Notices::Published).await? {
        if worker.health.works(Work::Schedule, "") {
            // It has failed for that reason, and does so as long as it is there.
            worker.health.failed(Work::Schedule, "", &lacks);
        }
        return Ok(());
    }
    let session = worker.store.schedule_session().await?;
    let timeouts: Vec<&str> =
        worker.topology.timeouts.iter().map(|timeout| timeout.name.as_str()).collect();
    let refused = worker.store.register_timeouts(&worker.topology.name, &timeouts).await?;
    if !refused.is_empty() && refused != *removed {
        telemetry::timeouts_removed(&refused);
    }
    *removed = refused;
    let others = timeouts.iter().map(|timeout| (*timeout).to_owned()).collect();
    let leads = Leads { session, timeouts: Vec::new(), others, try_at: Instant::now() };
    // Not that of an earlier session: after a failover ids are given out again, to notices that are not published.
    let outgoing = Outgoing::new(worker, alive);
    Publishing { worker, alive, leads, outgoing, stop, left: None }.publish().await
}

/// The timeouts that this session publishes.
struct Leads {
    session: ScheduleSession,
    timeouts: Vec<String>,
    /// Other workers publish these.
    others: Vec<String>,
    try_at: Instant,
}

impl Leads {
    /// Leads what no other worker leads any more; whether that is more than before.
    async fn grow(&mut self) -> Result<bool, Unpublished> {
        if self.others.is_empty() || Instant::now() < self.try_at {
            return Ok(false);
        }
        self.try_at = Instant::now() + IDLE;
        let more = self.session.lead(&self.others).await?;
        self.others.retain(|timeout| !more.contains(timeout));
        self.timeouts.extend_from_slice(&more);
        Ok(!more.is_empty())
    }
}

/// One session.
struct Publishing<'a> {
    worker: &'a Worker,
    alive: &'a Task,
    leads: Leads,
    outgoing: Outgoing<'a>,
    stop: &'a Stop,
    /// Why some were not taken the last time.
    left: Option<String>,
}

impl Publishing<'_> {
    async fn publish(&mut self) -> Result<(), Unpublished> {
        let mut backoff = Backoff::new(&self.worker.timing);
        while !self.stop.is_requested() {
            self.alive.moved();
            let rest = match self.pass().await {
                Ok(Passed { left: Some(_), .. }) => LEFT,
                Ok(Passed { published: 0, .. }) => IDLE,
                Ok(_) => {
                    backoff = Backoff::new(&self.worker.timing);
                    PACE
                }
                // Without the database there is no lock.
                Err(error @ Unpublished::Store(_)) => return Err(error),
                Err(error) => {
                    failed(self.worker, &error);
                    self.outgoing.look_at_everything();
                    backoff.pause()
                }
            };
            pause(self.stop, rest).await;
        }
        Ok(())
    }

    async fn pass(&mut self) -> Result<Passed, Unpublished> {
        if self.leads.grow().await? {
            self.outgoing.look_at_everything();
        }
        let Leads { session, timeouts, .. } = &self.leads;
        if timeouts.is_empty() {
            return Ok(Passed::default());
        }
        let passed = self.outgoing.pass(session, timeouts, self.stop).await?;
        let health = &self.worker.health;
        match &passed.left {
            Some(Left { notices, reason }) => {
                if self.left.as_ref() != Some(reason) {
                    telemetry::notices_left(*notices, reason);
                }
                health.failed(Work::Schedule, "", reason);
                self.left = Some(reason.clone());
            }
            // What is left of older ones is seen by a look at everything.
            None if passed.is_whole => {
                if health.works(Work::Schedule, "") {
                    telemetry::notices_work();
                }
                self.left = None;
            }
            None => {}
        }
        Ok(passed)
    }
}

fn failed(worker: &Worker, error: &Unpublished) {
    let reason = error_chain(error);
    telemetry::notices_failed(&reason);
    worker.health.failed(Work::Schedule, "", &reason);
}

async fn pause(stop: &Stop, pause: Duration) {
    tokio::select! {
        biased;
        () = stop.requested() => {}
        () = tokio::time::sleep(pause) => {}
    }
}
