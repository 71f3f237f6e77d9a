//! Why a delay could not be measured.

use crate::{
    broker::{ConnectError, CpuError, ManagementError, PublishError, consume::ConsumeError},
    ladder::{path, spec::SpecError},
    order::OrderIdError,
};

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum DelayError {
    /// No connection.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// Declaring failed.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// A message was not confirmed.
    #[error(transparent)]
    Publish(#[from] PublishError),
    /// Receiving broke.
    #[error(transparent)]
    Consume(#[from] ConsumeError),
    /// A ladder is impossible: a defect of this program.
    #[error(transparent)]
    Ladder(#[from] SpecError),
    /// A delay has no path: a defect of this program.
    #[error(transparent)]
    Path(#[from] path::DelayError),
    /// A number cannot be an order id: a defect of this program.
    #[error(transparent)]
    OrderId(#[from] OrderIdError),
    /// The broker does not say what CPU it has used.
    #[error(transparent)]
    Cpu(#[from] CpuError),
    /// Not everything came back.
    #[error("{missing} of {all} messages did not come back within {within_s} s ({way})")]
    Lost {
        /// How many.
        missing: usize,
        /// Of how many.
        all: usize,
        /// Seconds after the last was due.
        within_s: u64,
        /// Which way.
        way: &'static str,
    },
}
