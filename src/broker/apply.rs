//! Brings a broker to a topology: observe, plan, carry out.

use std::{
    collections::BTreeSet,
    time::{Duration, Instant},
};

use super::{Management, ManagementError};
use crate::{
    plan::{Change, Plan, Step, diff::diff, snapshot::Snapshot},
    topology::Topology,
};

/// The broker's message counts are up to five seconds old (`collect_statistics_interval`): a count that was
/// read so long after the queue was unbound has seen everything that came in before.
const COUNTS_SETTLE: Duration = Duration::from_secs(6);

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// Reading or changing the broker failed before anything was changed.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// The plan is refused; nothing was changed.
    #[error("the plan is refused, nothing was changed\n{0}")]
    Refused(Plan),
    /// Some steps are done. The topology works as it is; applying again goes on from here.
    #[error("{done} of {all} steps are done; run `overdue apply` again to go on")]
    Partly {
        /// Steps that are done.
        done: usize,
        /// Steps of the plan.
        all: usize,
        /// Why the next one failed.
        source: ManagementError,
    },
}

/// What there is, and what it takes to get to `topology`; changes nothing.
///
/// # Errors
/// The broker cannot be read.
pub async fn plan(
    management: &Management,
    topology: &Topology,
    discard: &BTreeSet<String>,
) -> Result<(Plan, Snapshot), ManagementError> {
    let observed = management.observe().await?;
    Ok((diff(topology, &observed, discard), observed))
}

/// Carries a plan out front to back; `told` hears of each step that is done, and of deletions that have to wait.
///
/// A queue is deleted only when a count read six seconds after it was unbound says that it is empty.
///
/// # Errors
/// See [`ApplyError`].
pub async fn carry_out(
    management: &Management,
    plan: &Plan,
    mut told: impl FnMut(&Step, Done),
) -> Result<(), ApplyError> {
    if !plan.refusals.is_empty() {
        return Err(ApplyError::Refused(plan.clone()));
    }
    let mut settled_since = Instant::now();
    for (done, step) in plan.steps.iter().enumerate() {
        let carried = one(management, &step.change, settled_since).await;
        let carried = carried.map_err(|source| match done {
            0 => ApplyError::Management(source),
            _ => ApplyError::Partly { done, all: plan.steps.len(), source },
        })?;
        if matches!(step.change, Change::Unbind(_)) {
            settled_since = Instant::now();
        }
        told(step, carried);
    }
    Ok(())
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is done.
    Yes,
    /// The queue is not empty yet: a later apply deletes it.
    NotEmpty,
}

async fn one(
    management: &Management,
    change: &Change,
    settled_since: Instant,
) -> Result<Done, ManagementError> {
    if let Change::DeleteQueue { queue, lost: 0 } = change {
        tokio::time::sleep(COUNTS_SETTLE.saturating_sub(settled_since.elapsed())).await;
        let stats = management.queue_stats().await?;
        let messages = stats.get(queue).and_then(|queue| queue.messages);
        if stats.contains_key(queue) && messages != Some(0) {
            return Ok(Done::NotEmpty);
        }
    }
    management.apply(change).await.map(|()| Done::Yes)
}
