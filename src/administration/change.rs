//! The one way to change a broker: lock, observe, plan, carry out, unlock. `overdue apply`, `--wait`
//! and `overdue run` all go through here.

use std::collections::BTreeSet;

use super::{
    LockError, Management, ManagementError, TopologyLock,
    apply::{self, ApplyError, StepResult},
};
use crate::{
    plan::{Plan, Step, snapshot::Snapshot},
    topology::Topology,
};

/// What is to become of a topology.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Goal {
    /// The broker has it.
    Applied {
        /// Queues of removed timeouts that may be deleted with their messages.
        discard: BTreeSet<String>,
    },
    /// The broker has nothing of it.
    Removed {
        /// Whether messages that wait may be lost.
        discard: bool,
    },
}

/// A broker that is to have a topology, or is to have it no more.
pub struct TopologyChange<'a> {
    /// The virtual host, and how old its counts are.
    pub management: &'a Management,
    /// The topology.
    pub topology: &'a Topology,
    /// What is to become of it.
    pub goal: Goal,
}

/// What happens on the way.
#[derive(Debug)]
pub enum ChangeEvent<'a> {
    /// Somebody else holds the lock: it waits for up to three minutes.
    WaitsForLock,
    /// A step is carried out, or its queue is kept.
    Step(&'a Step, StepResult),
}

/// Why a broker was not changed, or not completely.
#[derive(Debug, thiserror::Error)]
pub enum ChangeError {
    /// The lock is not to be had; nothing was changed.
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
    /// Brings `topology` to the virtual host of `management`, and discards nothing.
    pub fn new(management: &'a Management, topology: &'a Topology) -> Self {
        Self { management, topology, goal: Goal::Applied { discard: BTreeSet::new() } }
    }

    /// What there is, and what it takes to get to the goal; changes nothing and needs no lock.
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

    /// Makes the change as it is planned: [`make`](Self::make) without a decision and without a report.
    pub async fn apply(&self) -> Result<Plan, ChangeError> {
        self.make(Ok, |_| {}).await
    }

    /// Takes the lock, plans from what is there then, and carries out what `decide` makes of the plan. Returns that.
    ///
    /// The lock is checked before each step, and released however this ends.
    ///
    /// # Errors
    /// What `decide` says, or a [`ChangeError`]. Stopped after any step, the broker has a topology that works.
    pub async fn make<E: From<ChangeError>>(
        &self,
        decide: impl FnOnce(Plan) -> Result<Plan, E>,
        mut on_event: impl FnMut(ChangeEvent<'_>),
    ) -> Result<Plan, E> {
        let waits = || on_event(ChangeEvent::WaitsForLock);
        let lock = TopologyLock::acquire(self.management.address(), self.topology, waits).await;
        let lock = lock.map_err(ChangeError::from)?;
        // Dropping the lock releases it as well; this way the next one need not wait until the broker notices.
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
