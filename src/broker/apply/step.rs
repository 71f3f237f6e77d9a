//! What can become of one step of a plan.

use super::super::{ConnectError, LockLost, ManagementError, consume::ConsumeError};

/// The connection that asks queues what is in them.
pub(super) const COUNTING: &str = "overdue: counting what waits";

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
    #[error("it is not known whether the queue may be deleted")]
    Count(#[from] ConsumeError),
    /// Somebody else may be changing the topology by now.
    #[error(transparent)]
    LockLost(#[from] LockLost),
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// It is carried out.
    Done,
    /// The queue holds more than the plan gives up: a later apply deletes it.
    NotEmpty,
    /// The broker does not count what is in the queue: a later apply deletes it.
    NotCounted,
    /// Somebody has bound the queue again: it is in use.
    Bound,
    /// Somebody else consumes from the queue by now.
    Consumed,
    /// Messages may still take this way: a queue that leads here was kept, or the exchange is in use.
    Needed,
}
