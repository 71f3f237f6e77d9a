//! Brings a broker to a topology: observe, plan, carry out.

mod deletion;

use std::{collections::BTreeSet, time::Instant};

use super::{ConnectError, Management, ManagementError, consume::ConsumeError, passive};
use crate::{
    plan::{Change, Plan, Step, diff::diff, snapshot::Snapshot},
    topology::Topology,
};
use deletion::Deletion;

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// The first step failed; nothing was changed.
    #[error(transparent)]
    First(#[from] StepError),
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
        source: StepError,
    },
}

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Reading or changing the broker.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// No connection over which a queue could be asked what is in it.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A queue did not say what is in it.
    #[error("it is not known whether it may be deleted")]
    Count(#[from] ConsumeError),
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
    let mut observed = management.observe().await?;
    let plan = diff(topology, &observed, discard);
    let leaving = plan.leaving();
    if leaving.is_empty() {
        return Ok((plan, observed));
    }
    count(management, leaving, &mut observed).await;
    Ok((diff(topology, &observed, discard), observed))
}

/// The statistics are late; what has come in since is asked of the queues themselves. A plan without it is as good as
/// the statistics are, and no queue is deleted for it.
async fn count(management: &Management, queues: BTreeSet<String>, observed: &mut Snapshot) {
    let Ok(link) = management.link("overdue: counting what waits").await else { return };
    for queue in queues {
        if let Ok(Some(ready)) = passive::ready(&link, &queue).await {
            observed.at_least(&queue, ready);
        }
    }
    link.close().await;
}

/// Carries a plan out front to back; `told` hears of each step that is done, and of deletions that have to wait.
///
/// Nobody else should change the topology meanwhile: hold its [`Turn`](super::Turn).
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
    let mut unbound = Instant::now();
    let mut deletion = Deletion::new(management);
    for (done, step) in plan.steps.iter().enumerate() {
        let carried = match &step.change {
            Change::DeleteQueue { queue, lost } => deletion.carry_out(queue, *lost, unbound).await,
            change => management.apply(change).await.map(|()| Done::Yes).map_err(StepError::from),
        };
        let carried = carried.map_err(|source| match done {
            0 => ApplyError::First(source),
            _ => ApplyError::Partly { done, all: plan.steps.len(), source },
        })?;
        if matches!(step.change, Change::Unbind(_)) {
            unbound = Instant::now();
        }
        told(step, carried);
    }
    deletion.end().await;
    Ok(())
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Done {
    /// It is done.
    Yes,
    /// The queue holds more than the plan gives up: a later apply deletes it.
    NotEmpty,
    /// Somebody has bound the queue again: it is in use.
    Bound,
}
