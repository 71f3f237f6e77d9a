//! Deleting a queue only when nothing is in it: a question that no single call of the broker answers.
//!
//! A quorum queue cannot be deleted `if-empty`. What is ready in it, it says itself (a passive declare), and that is one
//! more reason to keep it. What is unacked, held back (delayed retry, `x-opt-delivery-time`), or on its way to the dead
//! letter exchange, only the statistics say, and they are late: they are believed when the queue has reported twice since
//! it was taken out of use.

use std::{
    collections::BTreeMap,
    time::{Duration, Instant},
};

use super::{
    super::{Management, TopologyLock},
    COUNTING, StepError, StepResult,
};
use crate::{
    messaging::{Link, passive::Questions},
    plan::{Change, Plan, counts::CountReports},
};

/// How often the reports of the queues are looked at.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Deletes queues that have received nothing since the deletion began, over one connection that is opened at the first need.
pub(super) struct Deletion<'a> {
    management: &'a Management,
    lock: &'a TopologyLock,
    link: Option<Link>,
    began: Instant,
    /// Of every queue that the plan deletes: they are watched together, so that they are waited for once.
    reports: BTreeMap<String, CountReports>,
}

impl<'a> Deletion<'a> {
    pub(super) fn begin(management: &'a Management, lock: &'a TopologyLock, plan: &Plan) -> Self {
        let deleted = plan.steps.iter().filter_map(|step| match &step.change {
            Change::DeleteQueue { queue, .. } => Some((queue.clone(), CountReports::default())),
            _ => None,
        });
        Self { management, lock, link: None, began: Instant::now(), reports: deleted.collect() }
    }

    /// Deletes `queue` if it holds at most `lost` messages. The lock is checked last: without the lock, another program may have
    /// bound the queue in the meantime.
    pub(super) async fn delete(&mut self, queue: &str, lost: u64) -> Result<StepResult, StepError> {
        if !self.is_counted(queue).await? {
            return Ok(StepResult::NotCounted);
        }
        if self.management.foreign_consumers(queue).await? > 0 {
            return Ok(StepResult::Consumed);
        }
        // Bindings before counts: what comes in after this look comes through the default exchange.
        if self.management.is_bound(queue).await? {
            return Ok(StepResult::Bound);
        }
        let Some(stats) = self.management.stats_of(queue).await? else {
            return Ok(StepResult::Done);
        };
        let mut questions = Questions::new(self.link().await?);
        // A classic queue whose node is down is not found either, and comes back with the node.
        let counts = questions.own_counts(queue).await?.filter(|counts| counts.are_its_own);
        let Some(counts) = counts else { return Ok(StepResult::NotCounted) };
        if stats.held().is_none_or(|held| held.max(counts.ready) > lost) {
            return Ok(StepResult::NotEmpty);
        }
        self.lock.check().await?;
        if stats.kind.as_deref() == Some("classic") && lost == 0 {
            let deleted = self.management.delete_if_empty(queue).await?;
            return Ok(if deleted { StepResult::Done } else { StepResult::NotEmpty });
        }
        let change = Change::DeleteQueue { queue: queue.to_owned(), lost };
        self.management.apply(&change).await?;
        Ok(StepResult::Done)
    }

    /// Waits for counts of `queue` from after the start of the deletion; false if no newer counts come.
    async fn is_counted(&mut self, queue: &str) -> Result<bool, StepError> {
        loop {
            let old = self.reports.iter_mut().filter(|(_, reports)| !reports.are_newer());
            for (queue, reports) in old {
                if let Some(report) = self.management.count_report(queue).await? {
                    reports.seen(report);
                }
            }
            let waited = self.began.elapsed();
            let statistics = self.management.statistics_interval();
            match self.reports.get(queue).filter(|reports| reports.any()) {
                Some(reports) if reports.are_newer() => return Ok(true),
                Some(_) if waited > statistics.uncounted_at_most() => return Ok(false),
                None if waited >= self.management.surely_settle() => return Ok(true),
                Some(_) | None => tokio::time::sleep(LOOK_EVERY).await,
            }
            self.lock.check().await?;
        }
    }

    async fn link(&mut self) -> Result<&Link, StepError> {
        // One that was lost while the counts settled is of no use.
        let link = match self.link.take().filter(Link::is_connected) {
            Some(link) => link,
            None => self.management.link(COUNTING).await?,
        };
        Ok(self.link.insert(link))
    }

    pub(super) async fn end(self) {
        if let Some(link) = self.link {
            link.close().await;
        }
    }
}
