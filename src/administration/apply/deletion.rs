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
    super::{Management, ManagementError, TopologyLock},
    COUNTING, StepError, StepResult,
};
use crate::{
    messaging::{Link, passive::Questions},
    plan::{Change, Plan, counts::CountReports},
};

/// How often the reports of the queues are looked at.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Deletes queues, over one connection that is opened when it is needed.
pub(super) struct Deletion<'a> {
    management: &'a Management,
    link: Option<Link>,
    unbound: Instant,
    /// Of every queue that the plan deletes: they are watched together, so that they are waited for once.
    reports: BTreeMap<String, CountReports>,
}

/// Whether the counts of a queue are newer than its last binding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Counted {
    Yes,
    NotYet,
    Never,
}

impl<'a> Deletion<'a> {
    pub(super) fn new(management: &'a Management, plan: &Plan) -> Self {
        let deleted = plan.steps.iter().filter_map(|step| match &step.change {
            Change::DeleteQueue { queue, .. } => Some((queue.clone(), CountReports::default())),
            _ => None,
        });
        Self { management, link: None, unbound: Instant::now(), reports: deleted.collect() }
    }

    /// A queue was taken out of use a moment ago.
    pub(super) fn unbound(&mut self) {
        self.unbound = Instant::now();
        self.reports.values_mut().for_each(|reports| *reports = CountReports::default());
    }

    /// Looks whether the counts have seen everything that was in `queue` when the last queue was unbound.
    pub(super) async fn look(&mut self, queue: &str) -> Result<Counted, ManagementError> {
        for (queue, reports) in self.reports.iter_mut().filter(|(_, reports)| !reports.are_newer())
        {
            if let Some(report) = self.management.count_report(queue).await? {
                reports.seen(report);
            }
        }
        let statistics = self.management.statistics_interval();
        let waited = self.unbound.elapsed();
        let reported = self.reports.get(queue).filter(|reports| reports.any());
        Ok(match reported {
            Some(reports) if reports.are_newer() => Counted::Yes,
            Some(_) if waited > statistics.uncounted_at_most() => Counted::Never,
            None if waited >= self.management.surely_settle() => Counted::Yes,
            Some(_) | None => Counted::NotYet,
        })
    }

    /// Deletes `queue` if it holds no more than is given up with it; the counts are newer than its last binding. The lock is
    /// asked last: without it somebody else may have bound the queue since.
    pub(super) async fn delete(
        &mut self,
        queue: &str,
        lost: u64,
        lock: &TopologyLock,
    ) -> Result<StepResult, StepError> {
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
        lock.check().await?;
        if stats.kind.as_deref() == Some("classic") && lost == 0 {
            let deleted = self.management.delete_if_empty(queue).await?;
            return Ok(if deleted { StepResult::Done } else { StepResult::NotEmpty });
        }
        let change = Change::DeleteQueue { queue: queue.to_owned(), lost };
        self.management.apply(&change).await?;
        Ok(StepResult::Done)
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
