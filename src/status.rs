//! Reports whether orders are closed on time, if not why, and what to type, from one reading of database and broker.

mod forecast;
mod reading;
mod screen;
mod state;

pub use forecast::{Burst, ClosingRate, DueSoon, LastHour, Lateness};
pub use reading::{
    BrokerReading, BusinessQueue, Closings, DatabaseReading, Due, Failing, Known, Level, MINUTES,
    Reading, WaitingEvents, WaitingNotices, Wrong,
};
pub(crate) use screen::length as lateness;
pub use state::{State, StatusLevel};
