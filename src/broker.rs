//! The edge to RabbitMQ: where it is, how to connect, what it has, publishing and consuming.

pub(crate) mod address;
pub(crate) mod apply;
pub(crate) mod change;
mod clock;
mod connect;
pub(crate) mod consume;
mod early_bindings;
mod exchange_types;
pub(crate) mod frames;
mod gathering;
pub(crate) mod health;
mod host_list;
pub(crate) mod large_bodies;
pub(crate) mod lock;
pub(crate) mod management;
mod objects;
pub(crate) mod parking_lot;
pub(crate) mod passive;
pub(crate) mod policies;
pub(crate) mod probe;
pub(crate) mod publish;
pub(crate) mod routes;
pub(crate) mod stats;
mod stream;
mod tls_parameters;

pub use address::BrokerAddress;
pub use change::{ChangeError, ChangeEvent, Goal, TopologyChange};
pub use connect::{ConnectError, Link};
pub(crate) use lock::LockLost;
pub use lock::{LockError, TopologyLock};
pub(crate) use management::DelayedOnNode;
pub use management::{Management, ManagementError};
pub use publish::{PublishError, Publisher};
