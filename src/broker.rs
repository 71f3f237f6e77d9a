//! The edge to RabbitMQ: where it is, how to connect, what it has, publishing and consuming.

pub mod address;
pub mod connect;
pub mod consume;
pub mod declare;
pub mod frames;
pub mod management;
pub mod publish;
mod stream;

pub use address::BrokerAddress;
pub use connect::{ConnectError, Link};
pub use management::{Management, ManagementError};
pub use publish::{Message, PublishError, Publisher};
