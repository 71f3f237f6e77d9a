//! Deleting a queue only when nothing is in it: a question that no single call of the broker answers.
//!
//! A quorum queue cannot be deleted `if-empty`. What is ready in it, it says itself (a passive declare). What is
//! unacked, or on its way to the dead letter exchange, only the statistics say, and they are late.

use std::time::{Duration, Instant};

use super::{
    super::{Link, Management, passive},
    step::{COUNTING, StepError, StepResult},
};
use crate::plan::Change;

/// Deletes queues, over one connection that is opened when it is needed.
pub(super) struct Deletion<'a> {
    management: &'a Management,
    link: Option<Link>,
    unbound: Instant,
}

impl<'a> Deletion<'a> {
    pub(super) fn new(management: &'a Management) -> Self {
        Self { management, link: None, unbound: Instant::now() }
    }

    /// A queue was taken out of use a moment ago.
    pub(super) fn unbound(&mut self) {
        self.unbound = Instant::now();
    }

    /// How long it takes until the counts have seen everything that was in the queue that was unbound last.
    pub(super) fn counts_settle_in(&self) -> Duration {
        let settle = self.management.statistics_interval().counts_settle();
        settle.saturating_sub(self.unbound.elapsed())
    }

    /// Deletes `queue` if it holds no more than is given up with it; the counts have settled.
    pub(super) async fn delete(&mut self, queue: &str, lost: u64) -> Result<StepResult, StepError> {
        // Bindings before counts: what comes in after this look comes through the default exchange.
        if self.management.is_bound(queue).await? {
            return Ok(StepResult::Bound);
        }
        let mut stats = self.management.queue_stats().await?;
        let Some(stats) = stats.remove(queue) else { return Ok(StepResult::Done) };
        let Some(ready) = passive::ready(self.link().await?, queue).await? else {
            return Ok(StepResult::Done);
        };
        if stats.messages.is_none_or(|messages| messages.max(ready) > lost) {
            return Ok(StepResult::NotEmpty);
        }
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
