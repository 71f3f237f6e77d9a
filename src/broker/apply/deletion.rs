//! Deleting a queue only when nothing is in it: a question that no single call of the broker answers.
//!
//! A quorum queue cannot be deleted `if-empty`. What is ready in it, it says itself (a passive declare). What is
//! unacked, or on its way to the dead letter exchange, only the statistics say, and they are late.

use std::time::Instant;

use super::{
    super::{Link, Management, passive},
    Done, StepError,
};
use crate::plan::Change;

/// Deletes queues, over one connection that is opened when it is needed.
pub(super) struct Deletion<'a> {
    management: &'a Management,
    link: Option<Link>,
}

impl<'a> Deletion<'a> {
    pub(super) fn new(management: &'a Management) -> Self {
        Self { management, link: None }
    }

    /// Deletes `queue`, which was `unbound` then, if it holds no more than is given up with it.
    pub(super) async fn carry_out(
        &mut self,
        queue: &str,
        lost: u64,
        unbound: Instant,
    ) -> Result<Done, StepError> {
        // What is read so long after the queue was unbound has seen all that was in it.
        let settle = self.management.statistics_interval().counts_settle();
        tokio::time::sleep(settle.saturating_sub(unbound.elapsed())).await;
        // Bindings before counts: what comes in after this look comes through the default exchange.
        if self.management.is_bound(queue).await? {
            return Ok(Done::Bound);
        }
        let mut stats = self.management.queue_stats().await?;
        let Some(stats) = stats.remove(queue) else { return Ok(Done::Yes) };
        let Some(ready) = passive::ready(self.link().await?, queue).await? else {
            return Ok(Done::Yes);
        };
        if stats.messages.is_none_or(|messages| messages.max(ready) > lost) {
            return Ok(Done::NotEmpty);
        }
        if stats.kind.as_deref() == Some("classic") && lost == 0 {
            let deleted = self.management.delete_if_empty(queue).await?;
            return Ok(if deleted { Done::Yes } else { Done::NotEmpty });
        }
        let change = Change::DeleteQueue { queue: queue.to_owned(), lost };
        self.management.apply(&change).await?;
        Ok(Done::Yes)
    }

    async fn link(&mut self) -> Result<&Link, StepError> {
        // One that was lost while the counts settled is of no use.
        let link = match self.link.take().filter(Link::is_connected) {
            Some(link) => link,
            None => self.management.link("overdue: counting what waits").await?,
        };
        Ok(self.link.insert(link))
    }

    pub(super) async fn end(self) {
        if let Some(link) = self.link {
            link.close().await;
        }
    }
}
