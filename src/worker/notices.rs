//! The way of the notices that order services wrote with their orders: read, publish, forget what was confirmed.
//!
//! One worker does so at a time, by a lock of its session with the database. While there is something to publish it looks
//! every few milliseconds; where there is nothing it waits for a notification. No transaction notifies while it looks: those
//! that notify wait for one another when they commit.

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
    health::Work,
    session::SessionEnd,
    unpublished::Unpublished,
};
use crate::{
    config::PublishScheduled,
    shutdown::Stop,
    store::schedule::{Notices, ScheduleSession},
    telemetry,
    text::error_chain,
    timing::Timing,
};
use publish_rows::{Left, Outgoing, Passed};

/// Between two looks while there is something: one look is for the rows of many commits. The levels let go 500 ms early.
const PACE: Duration = Duration::from_millis(50);
/// The longest pause while a transaction that does not notify is open, and before what the broker does not take is tried
/// again.
const LONGEST_PACE: Duration = Duration::from_secs(1);

/// Publishes what `schedule()` writes until a stop is asked for, where the tables are there.
///
/// A failure is logged and tried again after a while; it does not end the session of the worker.
pub(super) async fn publish(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    if worker.schedule.publish == PublishScheduled::Off {
        return Ok(());
    }
    let mut removed = Vec::new();
    while !stop.is_requested() {
        if let Err(error) = in_one_session(&worker, &mut removed, &stop).await {
            failed(&worker, &error);
        }
        pause(&stop, jitter(worker.timing.backoff_longest)).await;
    }
    Ok(())
}

/// Ends where the tables are missing, or a stop was asked for. `removed`: the timeouts of which it was said that they are.
async fn in_one_session(
    worker: &Worker,
    removed: &mut Vec<String>,
    stop: &Stop,
) -> Result<(), Unpublished> {
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
    let poll = worker.timing.backoff_longest;
    if !leads(&session, &timeouts, poll, stop).await? {
        return Ok(());
    }
    session.take_back(&timeouts).await?;
    let outgoing = Outgoing::new(worker);
    let mut leader = Leader { worker, session, outgoing, stop, timing: &worker.timing, left: None };
    leader.publish().await?;
    Ok(leader.session.leave().await?)
}

/// Waits until this session is the one that publishes; false where a stop was asked for before.
///
/// One that knows the timeout of notices that were set aside goes first: beside a newer worker an older one would set them aside
/// again and again.
async fn leads(
    session: &ScheduleSession,
    timeouts: &[&str],
    poll: Duration,
    stop: &Stop,
) -> Result<bool, Unpublished> {
    let mut wants = false;
    while !stop.is_requested() {
        if (wants || !session.is_wanted().await?) && session.lead().await? {
            if wants {
                session.content().await?;
            }
            return Ok(true);
        }
        wants = wants || session.want(timeouts).await?;
        tokio::select! {
            biased;
            () = stop.requested() => {}
            // One that was killed has notified nobody.
            () = session.rung() => {}
            () = tokio::time::sleep(if wants { LONGEST_PACE } else { jitter(poll) }) => {}
        }
    }
    Ok(false)
}

/// The one that publishes.
struct Leader<'a> {
    worker: &'a Worker,
    session: ScheduleSession,
    outgoing: Outgoing<'a>,
    stop: &'a Stop,
    timing: &'a Timing,
    /// Why some were not taken the last time.
    left: Option<String>,
}

impl Leader<'_> {
    /// Ends also where another session is to publish.
    async fn publish(&mut self) -> Result<(), Unpublished> {
        let (mut backoff, mut quiet) = (Backoff::new(self.timing), PACE);
        // Also rows that nobody notified of (written past the functions, or with `overdue.notify` off) are found then.
        let poll = self.timing.backoff_longest;
        let mut ask_at = Instant::now() + poll;
        while !self.stop.is_requested() {
            if Instant::now() >= ask_at {
                if self.session.is_wanted().await? {
                    telemetry::notices_left_to_another();
                    return Ok(());
                }
                ask_at = Instant::now() + poll;
            }
            match self.pass().await {
                Ok(Passed { published: 0, left: None }) => {
                    if self.waits_idle().await? {
                        quiet = PACE;
                    } else {
                        pause(self.stop, quiet).await;
                        quiet = (quiet * 2).min(LONGEST_PACE);
                    }
                }
                Ok(Passed { left: Some(_), .. }) => pause(self.stop, LONGEST_PACE).await,
                Ok(_) => {
                    (backoff, quiet) = (Backoff::new(self.timing), PACE);
                    pause(self.stop, PACE).await;
                }
                // Without the database there is no lock.
                Err(error @ Unpublished::Store(_)) => return Err(error),
                Err(error) => {
                    failed(self.worker, &error);
                    pause(self.stop, backoff.pause()).await;
                }
            }
        }
        Ok(())
    }

    async fn pass(&mut self) -> Result<Passed, Unpublished> {
        let passed = self.outgoing.pass(&self.session, self.stop).await?;
        let why = passed.left.as_ref().map(|left| left.reason.clone());
        let health = &self.worker.health;
        match &passed.left {
            Some(Left { notices, reason }) => {
                if why != self.left {
                    telemetry::notices_left(*notices, reason);
                }
                health.failed(Work::Schedule, "", reason);
            }
            None if health.works(Work::Schedule, "") => telemetry::notices_work(),
            None => {}
        }
        self.left = why;
        Ok(passed)
    }

    /// Waits until somebody notifies, or it is time to look; false where some transaction that does not notify is open.
    async fn waits_idle(&mut self) -> Result<bool, Unpublished> {
        if !self.session.idle().await? {
            return Ok(false);
        }
        // Rows of transactions that did not notify: they can be seen by now.
        if matches!(self.pass().await, Ok(Passed { published: 0, left: None })) {
            tokio::select! {
                () = self.stop.requested() => {}
                () = self.session.rung() => {}
                () = tokio::time::sleep(self.timing.backoff_longest) => {}
            }
        }
        self.session.awake().await?;
        Ok(true)
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
