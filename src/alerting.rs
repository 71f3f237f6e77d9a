//! Alerts without a monitoring system: when something has been wrong for long enough to say so, what is said, and in which
//! form a webhook wants it. Data in, data out; [`crate::notify`] sends it.

pub(crate) mod answer;
pub(crate) mod facts;
pub(crate) mod format;
pub(crate) mod kind;
pub(crate) mod lot;
pub(crate) mod mail;
pub(crate) mod notice;
pub(crate) mod request;
mod signature;
pub(crate) mod watcher;
