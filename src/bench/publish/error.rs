//! Why publishing could not be measured.

use crate::{
    bench::raw_client::RawClientError,
    broker::{ConnectError, PublishError},
    order::OrderIdError,
    topology::route::RouteError,
};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum PublishBenchError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// The client by itself failed.
    #[error(transparent)]
    RawClient(#[from] RawClientError),
    /// Looking at the queue failed.
    #[error("cannot count what arrived: {0}")]
    Count(#[from] lapin::Error),
    /// A message was not confirmed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The topology has no such timeout: a defect of this program.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A number cannot be an order id: a defect of this program.
    #[error(transparent)]
    OrderId(#[from] OrderIdError),
    /// A program could not be run.
    #[error("cannot run {program}: {source}")]
    Run {
        /// Its name.
        program: String,
        /// What the system said.
        source: std::io::Error,
    },
    /// A program failed.
    #[error("{program} failed: {output}")]
    Failed {
        /// Its name.
        program: String,
        /// Its standard error.
        output: String,
    },
    /// What was confirmed is not there.
    #[error("{way}: {arrived} of {messages} messages arrived")]
    Arrived {
        /// On which way.
        way: String,
        /// So many are in the queue.
        arrived: usize,
        /// So many were published.
        messages: usize,
    },
}
