//! The parking lot as data: what lies in it, why, which of it is asked for, and what becomes of it.

mod cause;
mod fate;
mod message;
mod selection;

pub use cause::{Cause, Reasons};
pub use fate::{Fate, Stays, Totals, fate, state, state_word};
pub use message::{Filter, ParkedMessage};
pub use selection::Selection;
