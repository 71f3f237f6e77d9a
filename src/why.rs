//! Explains why one order was closed, is late, or is not closed, from facts of database and broker.

mod answer;
mod reading;
mod screen;

pub use answer::Answer;
pub use reading::{Action, Closure, Event, Found, Notice, OrderReading, Parked, Seen};
