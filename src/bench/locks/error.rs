//! Why nothing could be measured.

use std::time::Duration;

use crate::{
    broker::{ConnectError, PublishError},
    order::OrderIdError,
    store::StoreError,
    topology::route::RouteError,
};

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum LocksError {
    /// The broker cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A message was not confirmed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// A statement failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The topology of the benchmark has no such route: a defect of this program.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A defect of this program.
    #[error(transparent)]
    OrderId(#[from] OrderIdError),
    /// The worker does not close what it should.
    #[error("gave up after {} s: {left} orders are not closed {when}", waited.as_secs())]
    Stuck {
        /// Orders that are neither closed nor paid.
        left: usize,
        /// In which part of a round.
        when: String,
        /// For how long.
        waited: Duration,
    },
}
