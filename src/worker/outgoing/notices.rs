//! Notices that order services wrote with their orders. What the broker does not take stays in the table, and is passed over.

use std::{
    collections::BTreeMap,
    sync::Arc,
    time::{Duration, Instant},
};

use super::{
    IDLE, LEFT_EVERY, Leader, OutgoingError, PAGE, Passed, Row, RowFate, RowsRead, Source,
};
use crate::{
    config::PublishScheduled,
    decisions::disposition::NOWHERE_TO_WAIT,
    shutdown::Stop,
    store::{
        StoreError,
        outgoing::Table,
        schedule::{self, ScheduleUse, ScheduledNotice, SetAside},
    },
    telemetry,
    text::error_chain,
    topology::{Timeout, route::Route},
    wire::{DueNotice, Message},
    worker::{
        context::Worker,
        health::{ALIVE_WITHIN, Work},
        levels::Levels,
        session::SessionEnd,
    },
};

/// Between two looks while there is something: one look is for the rows of many commits. The levels let go 2 s early.
const PACE: Duration = Duration::from_millis(50);

/// Publishes what `schedule()` writes until a stop is asked for, where the tables are there.
pub(crate) async fn publish(worker: Arc<Worker>, stop: Stop) -> Result<(), SessionEnd> {
    if worker.schedule.publish != PublishScheduled::Off {
        let alive = worker.health.task("schedule", "", ALIVE_WITHIN);
        let (levels, removed, left) = (Levels::default(), Vec::new(), None);
        let notices = Notices { worker: &worker, levels, removed, left };
        super::publish(&worker, notices, &alive, &stop).await;
    }
    Ok(())
}

struct Notices<'a> {
    worker: &'a Worker,
    levels: Levels,
    /// The timeouts of which it was said that they are removed.
    removed: Vec<String>,
    /// Why some were not taken the last time.
    left: Option<String>,
}

impl Source for Notices<'_> {
    const TABLE: Table = Table::Notices;
    const WORK: Work = Work::Schedule;
    const PURPOSE: &'static str = "overdue worker: scheduled notices";
    const IN_ORDER: bool = false;

    async fn begin(&mut self) -> Result<Vec<String>, OutgoingError> {
        let worker = self.worker;
        self.left = None;
        self.levels.forget();
        if let Some(lacks) = worker.store.schedule_lacks(ScheduleUse::Published).await? {
            if worker.health.works(Work::Schedule, "") {
                // It has failed for that reason, and does so as long as it is there.
                worker.health.failed(Work::Schedule, "", &lacks);
            }
            return Ok(Vec::new());
        }
        let timeouts: Vec<_> =
            worker.topology.timeouts.iter().map(Timeout::name_and_delay).collect();
        let refused = worker.store.register_timeouts(&worker.topology.name, &timeouts).await?;
        if !refused.is_empty() && refused != self.removed {
            telemetry::timeouts_removed(&refused);
        }
        self.removed = refused;
        Ok(timeouts.into_iter().map(|(name, _)| name.to_owned()).collect())
    }

    async fn read(
        &mut self,
        session: &mut Leader<'_>,
        after: i64,
        _is_look: bool,
    ) -> Result<RowsRead, OutgoingError> {
        let (database, undeleted) = (&session.database, session.undeleted.rows(Table::Notices));
        let claimed = schedule::claim(database, after, PAGE, &session.parts, &undeleted).await?;
        let mut page =
            RowsRead { last: claimed.last, is_full: claimed.is_full, ..RowsRead::default() };
        let never =
            |aside: SetAside| (Row::of(Table::Notices, aside.id), RowFate::Never(aside.reason));
        page.decided = claimed.faulty.into_iter().map(never).collect();
        for notice in claimed.notices {
            match self.route(&notice) {
                Ok(route) => page.rows.push(row(notice, route)),
                Err(reason) => {
                    let fate = RowFate::Waits { destination: Arc::from(""), reason };
                    page.decided.push((Row::of(Table::Notices, notice.id), fate));
                }
            }
        }
        Ok(page)
    }

    async fn settle(
        &mut self,
        session: &mut Leader<'_>,
        fates: Vec<(Row, RowFate)>,
        passed: &mut Passed,
    ) -> Result<(), StoreError> {
        let (mut published, mut aside) = (Vec::new(), Vec::new());
        let mut by_timeout: BTreeMap<String, usize> = BTreeMap::new();
        for (row, fate) in fates {
            let id = row.key.1;
            match fate {
                RowFate::Confirmed => {
                    published.push(id);
                    *by_timeout.entry(row.name).or_default() += 1;
                }
                RowFate::Waits { reason, .. } => passed.leave(1, reason),
                RowFate::Returned => {
                    passed.returned += 1;
                    if let Some(route) = &row.route {
                        self.levels.returned(route, Instant::now());
                    }
                }
                RowFate::Never(reason) => aside.push(SetAside { id, reason }),
            }
        }
        passed.published += published.len();
        for (timeout, notices) in &by_timeout {
            telemetry::notices_published(timeout, *notices);
        }
        session.undeleted.forget(&session.database, Table::Notices, &published).await?;
        let Some(first) = aside.first() else { return Ok(()) };
        match schedule::set_aside(&session.database, &aside).await {
            Ok(()) => telemetry::notices_set_aside(aside.len(), first.id, &first.reason),
            Err(error) if error.is_answer() => passed.leave(aside.len(), error_chain(&error)),
            Err(error) => return Err(error),
        }
        Ok(())
    }

    async fn rest(&mut self, _session: &mut Leader<'_>, passed: &Passed, stop: &Stop) {
        let health = &self.worker.health;
        match &passed.left {
            Some(left) => {
                health.failed(Work::Schedule, "", &left.reason);
                // The reason of the oldest is known where all of them were seen.
                if self.left.is_none()
                    || passed.is_whole && self.left.as_ref() != Some(&left.reason)
                {
                    telemetry::notices_left(left.rows, &left.reason);
                    self.left = Some(left.reason.clone());
                }
            }
            // What is left of older ones is seen by a look at everything.
            None if passed.is_whole && passed.returned == 0 => {
                if health.works(Work::Schedule, "") {
                    telemetry::notices_work();
                }
                self.left = None;
            }
            None => {}
        }
        stop.pause(until_next(passed)).await;
    }

    fn failed(&mut self, reason: &str) {
        telemetry::notices_failed(reason);
    }
}

impl Notices<'_> {
    /// Which way a notice goes, or why it does not.
    fn route(&self, notice: &ScheduledNotice) -> Result<Route, String> {
        let topology = &self.worker.topology;
        let unknown = || format!("there is no timeout `{}`", notice.timeout);
        let timeout = topology.timeout(&notice.timeout).ok_or_else(unknown)?;
        let route = self.levels.wait(topology, timeout, notice.rest, Instant::now());
        route.map_err(|_nowhere| NOWHERE_TO_WAIT.to_owned())
    }
}

/// Until the next pass. What is left is tried again by looks at everything, which have a pace of their own; as long as it is above the
/// low watermark (a transaction that may write below it is open) the others read it as well.
const fn until_next(passed: &Passed) -> Duration {
    match passed {
        Passed { published: 0, returned: 0, left: Some(_), is_look: false, .. } => LEFT_EVERY,
        Passed { published: 0, returned: 0, .. } => IDLE,
        Passed { .. } => PACE,
    }
}

/// The first queue can refuse it, or not answer, and so can a permission for the timeout.
fn row(notice: ScheduledNotice, route: Route) -> (Row, Message) {
    let destination = format!("{} for {}", route.place(), notice.timeout);
    let ScheduledNotice { id, order_id, timeout: name, due_at, trace, .. } = notice;
    let due = DueNotice { order_id, due_at: Some(due_at) };
    let (destination, key) = (Arc::from(destination), (Table::Notices, id));
    let mut message = Message::notice(route.clone(), &due);
    if let Some(trace) = trace {
        trace.write(&mut message.headers);
    }
    let route = Some(route);
    (Row { key, is_new: false, order: None, name, destination, waits_for: None, route }, message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_notice_that_is_left_does_not_make_new_ones_wait_longer_unless_each_pass_reads_it() {
        let mut passed = Passed { published: 1, ..Passed::default() };
        passed.leave(1, "full".to_owned());
        assert_eq!(until_next(&passed), PACE);
        passed.published = 0;
        assert_eq!(until_next(&passed), LEFT_EVERY);
        passed.is_look = true;
        assert_eq!(until_next(&passed), IDLE);
        assert_eq!(until_next(&Passed::default()), IDLE);
    }
}
