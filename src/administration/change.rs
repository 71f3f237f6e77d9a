//! The only way to change a broker: lock, observe, plan, carry out, unlock. `overdue apply`, `--wait` and `overdue run`
//! all use it.

use std::collections::BTreeSet;

use super::{
    LockError, Management, ManagementError, TopologyLock,
    apply::{self, ApplyError, StepResult},
};
use crate::{
    plan::{Plan, Step, snapshot::Snapshot},
    topology::Topology,
};

/// The state that a topology should reach on the broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The broker has the topology.
    Applied {
        /// Queues of removed timeouts that may be deleted with their messages.
        discard: BTreeSet<String>,
    },
    /// The broker has no object of the topology.
    Removed {
        /// Whether queues may be deleted with their messages.
        discard: bool,
    },
}

/// A change of a broker that applies or removes a topology.
pub struct TopologyChange<'a> {
    /// The virtual host, and the maximum age of its counts.
    pub management: &'a Management,
    /// The topology to apply or remove.
    pub topology: &'a Topology,
    /// The state that the topology should reach.
    pub goal: Goal,
}

/// Progress of a change.
#[derive(Debug)]
pub enum ChangeEvent<'a> {
    /// Another connection has the lock; the change waits for up to three minutes.
    WaitsForLock,
    /// A step, and whether it was carried out or its queue was kept.
    Step(&'a Step, StepResult),
}

/// Why a broker was not changed, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// Failed to acquire the lock; nothing was changed.
    #[error(transparent)]
    Lock(#[from] LockError),
    /// The broker cannot be read; nothing was changed.
    #[error(transparent)]
    Observe(#[from] ManagementError),
    /// The plan was not carried out to its end.
    #[error(transparent)]
    Apply(#[from] ApplyError),
}

impl<'a> TopologyChange<'a> {
    /// A change that applies `topology` to the virtual host of `management`, and discards no message.
    pub fn new(management: &'a Management, topology: &'a Topology) -> Self {
        Self { management, topology, goal: Goal::Applied { discard: BTreeSet::new() } }
    }

    /// The plan that reaches the goal, and the observed objects; changes nothing and needs no lock.
    ///
    /// # Errors
    /// The broker cannot be read.
    pub async fn plan(&self) -> Result<(Plan, Snapshot), ManagementError> {
        match &self.goal {
            Goal::Applied { discard } => apply::plan(self.management, self.topology, discard).await,
            Goal::Removed { discard } => {
                apply::plan_removal(self.management, self.topology, *discard).await
            }
        }
    }

    /// Carries out the plan as it is: [`make`](Self::make) without a decision and without a report.
    pub async fn apply(&self) -> Result<Plan, ChangeError> {
        self.make(Ok, |_| {}).await
    }

    /// Takes the lock, plans from the objects that the broker then has, and carries out the plan that `decide` returns. Returns
    /// that plan.
    ///
    /// The lock is checked before each step, and released on success and on error.
    ///
    /// # Errors
    /// The error of `decide`, or a [`ChangeError`]. If the change stops after any step, the broker has a topology that works.
    pub async fn make<E: From<ChangeError>>(
        &self,
        decide: impl FnOnce(Plan) -> Result<Plan, E>,
        mut on_event: impl FnMut(ChangeEvent<'_>),
    ) -> Result<Plan, E> {
        let waits = || on_event(ChangeEvent::WaitsForLock);
        let lock = TopologyLock::acquire(self.management.address(), self.topology, waits).await;
        let lock = lock.map_err(ChangeError::from)?;
        // Dropping the lock releases it too. After `release`, the next command need not wait until the broker notices.
        let made = self.make_locked(&lock, decide, on_event).await;
        lock.release().await;
        made
    }

    async fn make_locked<E: From<ChangeError>>(
        &self,
        lock: &TopologyLock,
        decide: impl FnOnce(Plan) -> Result<Plan, E>,
        mut on_event: impl FnMut(ChangeEvent<'_>),
    ) -> Result<Plan, E> {
        let (plan, _) = self.plan().await.map_err(ChangeError::from)?;
        let plan = decide(plan)?;
        let on_step = |step: &Step, result| on_event(ChangeEvent::Step(step, result));
        let carried = apply::carry_out(self.management, self.topology, lock, &plan, on_step).await;
        carried.map_err(ChangeError::from)?;
        Ok(plan)
    }
}
