//! What the rules of `overdue check` look at besides the topology file.

use std::collections::BTreeSet;

use super::version::BrokerVersion;

/// What a rule knows besides the file.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The broker the topology is for; without it no rule about versions runs.
    pub broker: Option<BrokerVersion>,
    /// Effects whose SQL is in the settings, beside those that are built in.
    pub effects: BTreeSet<String>,
}
