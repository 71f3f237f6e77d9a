//! Brings a broker to a topology: observe, plan, carry out.

use super::{Management, ManagementError};
use crate::{
    plan::{Plan, diff::diff},
    topology::Topology,
};

/// Why the topology is not there.
#[derive(Debug, thiserror::Error)]
pub enum DeclareError {
    /// Reading or changing the broker failed. What was created before it stays and is found next time.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// Objects exist with other properties; nothing was changed.
    #[error("{} of the topology's objects exist with other properties; nothing was changed\n{}", .0.conflicts.len(), conflicts(.0))]
    Conflict(Plan),
}

fn conflicts(plan: &Plan) -> String {
    let list: String = plan.conflicts.iter().map(ToString::to_string).collect();
    format!(
        "{list}  RabbitMQ cannot change an existing queue or exchange. Either write into the topology file what the \
         broker has, or,\n  when it is empty and nobody uses it, delete it (rabbitmqctl delete_queue <name>) and run \
         `overdue apply` again"
    )
}

/// What it takes to get there; changes nothing.
///
/// # Errors
/// The broker cannot be read, or objects exist with other properties.
pub async fn plan(management: &Management, topology: &Topology) -> Result<Plan, DeclareError> {
    let plan = diff(topology, &management.observe().await?);
    if plan.conflicts.is_empty() { Ok(plan) } else { Err(DeclareError::Conflict(plan)) }
}

/// Carries a plan out front to back; `done` is told after each change.
///
/// # Errors
/// The first change that failed; all before it are done, none after it.
pub async fn carry_out(
    management: &Management,
    plan: &Plan,
    mut done: impl FnMut(&crate::plan::Change),
) -> Result<(), DeclareError> {
    for change in &plan.changes {
        management.apply(change).await?;
        done(change);
    }
    Ok(())
}
