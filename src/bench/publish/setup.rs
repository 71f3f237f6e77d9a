//! What the ways need.

use super::program::Program;
use crate::{broker::BrokerAddress, topology::Topology};

/// Where to publish, and as what.
pub(crate) struct PublishSetup {
    /// The broker.
    pub address: BrokerAddress,
    /// A topology with one level, applied.
    pub topology: Topology,
    /// `overdue publish`, with the same orders on its standard input.
    pub command: Program,
    /// The same as a script, where there is a Python with pika.
    pub script: Option<Program>,
}
