//! What was measured in one burst.

use crate::bench::{
    load::{Late, PathCount},
    usage::{Cpu, ProcessUsage},
};

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct Measured {
    /// Orders of this burst.
    pub orders: usize,
    /// From the deadline to the commit; for the broker alone, to the delivery.
    pub late: Late,
    /// From readiness until nothing is left to do.
    pub cpu: Cpu,
    /// Memory of its process; 0 for what is a part of this one.
    pub memory: ProcessUsage,
    /// The ways in which the orders were closed.
    pub paths: Vec<PathCount>,
    /// What is wrong.
    pub broken: Vec<String>,
}
