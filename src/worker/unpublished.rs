//! Why events and scheduled notices stay in their tables.

use crate::{
    broker::{ConnectError, PublishError},
    store::StoreError,
};

/// Why rows that are to be published stay in their table for now.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unpublished {
    #[error(transparent)]
    Connect(#[from] ConnectError),
    #[error(transparent)]
    Publish(#[from] PublishError),
    #[error(transparent)]
    Store(#[from] StoreError),
}
