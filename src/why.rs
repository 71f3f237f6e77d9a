//! Why one order was closed, is late, or is not closed: out of what database and broker say of it.

mod answer;
mod reading;
mod screen;

pub use answer::Answer;
pub use reading::{Action, Closure, Event, Found, Notice, OrderReading, Parked, Seen};
