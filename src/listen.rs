//! HTTP for those who look at a worker: a few pages on one port, and the question to them.
//!
//! Whoever asks gets an answer and the end of the connection, within bounds: neither a slow client nor many of them cost
//! the worker anything that matters.

pub(crate) mod ask;
pub(crate) mod page;
mod serve;

pub(crate) use serve::serve;
