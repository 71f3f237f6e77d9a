//! Measurements: what closing orders costs, also beside locks, in a burst and at a steady rate, what a delay, what
//! publishing and what the relay of events costs, and what a change of the topology does to messages.

pub(crate) mod burst;
pub(crate) mod change;
pub(crate) mod close;
pub(crate) mod contestant;
pub(crate) mod delay;
pub(crate) mod load;
pub(crate) mod locks;
pub(crate) mod plot;
pub(crate) mod publish;
pub(crate) mod raw_client;
pub(crate) mod relay;
mod spread;
pub(crate) mod stage;
pub(crate) mod steady;
pub(crate) mod usage;
