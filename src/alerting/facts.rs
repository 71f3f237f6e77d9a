//! What alerts are decided by.

use std::{collections::BTreeMap, time::Duration};

/// One reading of what a worker knows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// The longest from a deadline to its closing, of the orders closed since the last reading.
    pub latest: Duration,
    /// For each effect whose oldest overdue order is known, how long that has been overdue.
    pub overdue: BTreeMap<String, Duration>,
    /// Messages parked since the start, by timeout and reason.
    pub parked: BTreeMap<(String, String), u64>,
    /// Messages in the parking lot, whoever has put them there; `None` where the broker does not say.
    pub lot: Option<u64>,
    /// Orders that the sweep closed since the start, by timeout.
    pub swept: BTreeMap<String, u64>,
    /// Errors and warnings of the last comparison of the broker with the topology file.
    pub drift: u64,
    /// The conditions of `/readyz` that do not hold, each with its reason.
    pub not_ready: Vec<(String, String)>,
}
