//! Measurements: what closing orders costs, and what a change of the topology does to the messages in it.

pub(crate) mod change;
pub(crate) mod close;
