//! Messages of alerts, on their way: to a webhook or a mail server.
//!
//! Each alert has a task of its own and one message at a time. What is not taken is made anew from what is so by then, so
//! nothing queues up; nobody who closes orders waits for any of it.

pub(crate) mod alerts;
mod backoff;
pub(crate) mod deliver;
pub(crate) mod files;
mod host;
mod mail;
mod refused;
mod webhook;
mod within;
