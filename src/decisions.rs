//! The worker's decisions, as pure functions of what it knows and of the time that it is given.

pub mod batch;
pub mod delivery_tags;
pub mod disposition;
pub mod floor;
pub mod place;
pub mod readiness;
pub mod recently_closed;
pub mod timer_queue;
pub mod verdict;
