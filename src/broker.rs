//! The edge to RabbitMQ: where it is, how to connect, what it has, publishing and consuming.

pub mod address;
pub mod apply;
pub mod change;
pub mod connect;
pub mod consume;
pub mod frames;
pub mod health;
pub mod lock;
pub mod management;
mod objects;
pub mod passive;
pub mod policies;
pub mod probe;
pub mod publish;
mod remove;
pub mod stats;
mod stream;

pub use address::BrokerAddress;
pub use change::{ChangeError, ChangeEvent, TopologyChange};
pub use connect::{ConnectError, Link};
pub use lock::{LockError, LockLost, TopologyLock};
pub use management::{Management, ManagementError};
pub use publish::{PublishError, Publisher};
