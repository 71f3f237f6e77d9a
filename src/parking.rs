//! The parking lot as data: its messages, the reason of each, which ones are selected, and what happens to them.

mod cause;
mod fate;
mod message;
mod selection;

pub use cause::{Cause, Reasons};
pub use fate::{Fate, Stays, Totals, fate, state, state_word};
pub use message::{Filter, ParkedMessage};
pub use selection::Selection;
