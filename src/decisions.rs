//! The worker's decisions, as pure functions of what it knows and of the time that it is given.

pub(crate) mod batch;
pub(crate) mod delivery_tags;
pub(crate) mod disposition;
pub(crate) mod floor;
pub(crate) mod place;
pub(crate) mod readiness;
pub(crate) mod recently_closed;
pub(crate) mod timer_queue;
pub(crate) mod verdict;
