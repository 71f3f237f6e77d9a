//! What was seen of a run: the facts that checks and report rest on.

use std::time::Duration;

use crate::order_service::facts::Facts;

/// How long the parts of a run took.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Timing {
    /// From the first order created to the last one published.
    pub creating: Duration,
    /// From the start to the last order being final.
    pub running: Duration,
}

/// How a run ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Ending {
    /// Whether every order that was created is final.
    pub finished: bool,
    /// Whether no message of the run waits in its level any more, as far as it can be known.
    pub drained: bool,
}

/// A payment that was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Payment {
    /// Its order's place in the script.
    pub order: usize,
    /// Whether it was taken; otherwise it was refused, because the order was closed.
    pub taken: bool,
    /// How long after its time the statement was sent.
    pub late: Duration,
    /// Whether its answer came before the deadline of the order: then it came in time for sure.
    pub in_time: bool,
}

/// All facts about a run.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Evidence {
    /// How many orders of the script were created, from its beginning.
    pub created: usize,
    /// What the database holds of these.
    pub facts: Facts,
    /// Every payment that was sent.
    pub payments: Vec<Payment>,
    /// Orders of the run in the parking lot.
    pub parked: Vec<String>,
    /// Messages that came early and wait again; known only of a worker in this process.
    pub put_back: Option<u64>,
    /// How long it took.
    pub timing: Timing,
    /// How it ended.
    pub ending: Ending,
    /// Whether it was stopped from outside.
    pub interrupted: bool,
}
