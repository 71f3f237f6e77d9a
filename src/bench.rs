//! Measurements: what closing orders costs, also beside locks, and what a change of the topology does to messages.

pub(crate) mod change;
pub(crate) mod close;
pub(crate) mod locks;
