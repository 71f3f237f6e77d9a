//! RabbitMQ administration: reads the broker's objects by its management API, and makes every change of them.

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
