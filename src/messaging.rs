//! AMQP connections to RabbitMQ: addresses, connecting, publishing and consuming.

pub(crate) mod address;
mod connect;
pub(crate) mod consume;
pub(crate) mod copies;
pub(crate) mod frames;
mod host_list;
pub(crate) mod large_bodies;
pub(crate) mod parking_lot;
pub(crate) mod passive;
pub(crate) mod product;
pub(crate) mod publish;
mod read_coalescer;
mod stream;
mod tls_parameters;

pub use address::BrokerAddress;
pub use connect::{ConnectError, Link};
pub use publish::{PublishError, Publisher};
