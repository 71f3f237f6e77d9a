//! The parking lot as data: what lies in it, why, which of it is asked for, and what becomes of it.

mod cause;
mod fate;
mod filter;
mod message;
mod reasons;
mod state;
mod totals;

pub use cause::Cause;
pub use fate::{Fate, Stays, fate};
pub use filter::Filter;
pub use message::ParkedMessage;
pub use reasons::Reasons;
pub use state::{state, state_word};
pub use totals::Totals;
