//! What travels between order services, the broker and the worker: docs/wire.md as code.
//!
//! Routing keys are the topology's: [`Topology::route`](crate::topology::Topology::route).

pub(crate) mod compat;
pub(crate) mod headers;
mod message;
mod notice;
mod properties;
mod received;

pub use headers::BODY_LEFT_OUT;
pub use message::Message;
pub use notice::{DueNotice, MAX_BODY_BYTES, Unreadable};
pub use properties::Properties;
pub(crate) use received::Received;
