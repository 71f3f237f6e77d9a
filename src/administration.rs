//! The edge to RabbitMQ as its administrator: what it has, by its management API, and every change of it.

pub(crate) mod apply;
pub(crate) mod change;
pub(crate) mod health;
mod leaders;
pub(crate) mod lock;
pub(crate) mod management;
mod objects;
pub(crate) mod probe;
pub(crate) mod stats;

pub use change::{ChangeError, ChangeEvent, Goal, TopologyChange};
pub(crate) use lock::LockLost;
pub use lock::{LockError, TopologyLock};
pub use management::{Management, ManagementError};
pub(crate) use stats::DelayedOnNode;
