//! Log lines and metrics of the program, which describe the same events.

mod events;
pub(crate) mod labels;
mod log;
pub(crate) mod metrics;
pub(crate) mod observed;
mod publishing;
mod work;

pub(crate) use events::*;
pub(crate) use log::{LogEnd, Writing, flush_log, install};
pub(crate) use publishing::*;
pub(crate) use work::*;
