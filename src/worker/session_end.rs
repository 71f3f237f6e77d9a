//! What ends a session.

use crate::{
    broker::{ConnectError, PublishError, consume::ConsumeError},
    store::StoreError,
};

/// Why a session ended before a stop was asked for.
#[derive(Debug, thiserror::Error)]
pub(crate) enum SessionEnd {
    /// No connection to the broker.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A subscription ended.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// A message could not be put back or parked.
    #[error("failed to put a message back")]
    Publish(#[from] PublishError),
    /// The database did not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// `overdue apply` has put another queue in the place of one.
    #[error("the queues have changed")]
    QueuesChanged,
    /// A task of the session panicked: a defect of this program.
    #[error("a task of the worker panicked: {0}")]
    Panicked(String),
}
