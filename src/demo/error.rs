//! Why a run could not be played to its end.

use crate::{
    broker::{ConnectError, PublishError},
    store::StoreError,
};

/// Why there is no report. The rows of the run stay; `overdue demo --remove` removes them.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DemoError {
    /// A statement failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// No connection to the broker.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A due notice was not confirmed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// The broker refused something about a queue.
    #[error("failed to {step} queue `{queue}`")]
    Queue {
        /// What was being done.
        step: &'static str,
        /// As declared on the broker.
        queue: String,
        /// What the client reported.
        source: lapin::Error,
    },
    /// Nobody would close the orders.
    #[error(
        "no worker consumes queue `{queue}`: start one with `overdue run`, or leave out `--worker external`"
    )]
    NoWorker {
        /// The queue of the timeout.
        queue: String,
    },
    /// A part of the run panicked: a defect of this program.
    #[error("a part of the run panicked: {0}")]
    Panicked(String),
}
