//! Why a change could not be measured to its end.

use std::time::Duration;

use crate::{
    broker::{self, ConnectError, ManagementError, PublishError, consume::ConsumeError},
    plan::drain_wait::GaveUp,
};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub enum MeasureError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Reading or changing the broker failed.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// A change of the topology was not made.
    #[error(transparent)]
    Change(#[from] broker::ChangeError),
    /// A plan is refused in the middle of the change.
    #[error(transparent)]
    GaveUp(#[from] GaveUp),
    /// A message was not confirmed, so nobody knows whether it may be missing.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Receiving broke.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// A task that receives messages panicked: a defect of this program.
    #[error("a task that receives messages panicked: {0}")]
    Panicked(String),
    /// Something took longer than it may.
    #[error("gave up after {} s: {what}", waited.as_secs())]
    Stuck {
        /// What was waited for, and how far it is.
        what: String,
        /// For how long.
        waited: Duration,
    },
    /// A stop was requested.
    #[error("interrupted")]
    Interrupted,
}
