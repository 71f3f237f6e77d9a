//! The worker's decisions: pure functions of its state and of the time that the caller passes.

pub mod batch;
pub mod bisection;
pub mod delivery_tags;
pub mod destination_window;
pub mod disposition;
pub mod low_watermark;
pub mod readiness;
pub mod recently_closed;
pub mod timer_queue;
