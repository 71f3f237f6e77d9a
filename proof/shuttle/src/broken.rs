//! The copy with a fault.

pub(crate) use crate::messaging::{BrokerAddress, ConnectError, Link};

#[path = "../target/broken/mod.rs"]
pub(crate) mod publish;
