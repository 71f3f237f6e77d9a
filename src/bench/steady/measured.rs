//! What was measured of one contestant at one rate.

use std::time::Duration;

use crate::bench::{
    load::{Late, PathCount},
    usage::{Cpu, ProcessUsage},
};

/// What was measured.
#[derive(Clone, Debug, Default)]
pub(crate) struct SteadyMeasured {
    /// Orders closed.
    pub orders: usize,
    /// From the deadline to the commit.
    pub late: Late,
    /// While the notices were published and the orders closed.
    pub cpu: Cpu,
    /// What the contestant has in memory at the end, and at the most.
    pub memory: ProcessUsage,
    /// How late the latest notice was published.
    pub published_late: Duration,
    /// The ways in which the orders were closed.
    pub paths: Vec<PathCount>,
    /// What is wrong.
    pub broken: Vec<String>,
}
