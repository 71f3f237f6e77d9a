//! Why nothing could be measured.

use std::{io, time::Duration};

use crate::{
    bench::contestant::{ProcessError, tutorial::TutorialError},
    broker::{ChangeError, ConnectError, ManagementError, PublishError, consume::ConsumeError},
    order::OrderIdError,
    store::StoreError,
    topology::route::RouteError,
};

/// Why nothing could be measured.
#[derive(Debug, thiserror::Error)]
pub(crate) enum BenchError {
    /// The broker cannot be reached.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Looking at the broker failed.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// Declaring the objects failed.
    #[error(transparent)]
    Change(#[from] ChangeError),
    /// A message was not confirmed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Receiving broke.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// A statement failed.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The channel of the benchmark's own looks is gone.
    #[error("cannot look at a queue: {0}")]
    Look(#[from] lapin::Error),
    /// A contestant does not run.
    #[error(transparent)]
    Process(#[from] ProcessError),
    /// The tutorial's consumer has ended.
    #[error(transparent)]
    Tutorial(#[from] TutorialError),
    /// A file cannot be written.
    #[error("cannot write the topology file of a contestant")]
    File(#[from] io::Error),
    /// The topology of the benchmark is wrong: a defect of this program.
    #[error("the topology of the benchmark is wrong: {0}")]
    Topology(String),
    /// The topology of the benchmark has no such route: a defect of this program.
    #[error(transparent)]
    Route(#[from] RouteError),
    /// A defect of this program.
    #[error(transparent)]
    OrderId(#[from] OrderIdError),
    /// Something that is waited for does not happen.
    #[error("gave up after {} s: {what}", waited.as_secs())]
    Stuck {
        /// What did not happen.
        what: String,
        /// For how long.
        waited: Duration,
    },
}
