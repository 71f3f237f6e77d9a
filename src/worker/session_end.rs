//! What ends a session.

use crate::{
    broker::{ConnectError, consume::ConsumeError},
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
    /// The database did not do what was asked.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// A task of the session panicked: a defect of this program.
    #[error("a task of the worker panicked: {0}")]
    Panicked(String),
}

impl SessionEnd {
    /// For those who count: one of the values of the label `cause`.
    pub(super) const fn cause(&self) -> &'static str {
        match self {
            Self::Connect(_) => "connect",
            Self::Consume(_) => "consume",
            Self::Store(_) => "database",
            Self::Panicked(_) => "panic",
        }
    }
}
