//! The worker's decisions, as pure functions of what it knows and of the time that it is given.

pub(crate) mod batch;
pub(crate) mod blame;
pub(crate) mod busy;
pub(crate) mod contention;
pub(crate) mod disposition;
pub(crate) mod progress;
pub(crate) mod quarantine;
pub(crate) mod readiness;
pub(crate) mod remembered;
pub(crate) mod schedule;
pub(crate) mod splitting;
pub(crate) mod tags;
