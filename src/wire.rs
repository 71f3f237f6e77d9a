//! The messages between order services, the broker and the worker: docs/wire.md as code.
//!
//! The topology makes the routing keys: [`Topology::route`](crate::topology::Topology::route).

pub(crate) mod headers;
mod message;
mod notice;
mod parked;
mod received;
mod trace;
pub(crate) mod x_delay;

pub use headers::{BODY_LEFT_OUT, PROPERTIES_DROPPED};
pub(crate) use headers::{VALUE_BYTES, is_of_dead_lettering};
pub use message::Message;
pub(crate) use message::PERSISTENT;
pub use notice::{DueNotice, MAX_BODY_BYTES, Unreadable};
pub(crate) use parked::{Death, Parked, in_a_line};

pub use received::Properties;
pub use received::Received;
pub use trace::Trace;
pub(crate) use trace::Traces;
