//! Measurements: what closing orders costs, also beside locks, what a delay costs, and what a change of the topology
//! does to messages.

pub(crate) mod change;
pub(crate) mod close;
pub(crate) mod delay;
pub(crate) mod locks;
mod spread;
