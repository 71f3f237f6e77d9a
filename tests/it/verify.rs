//! `overdue verify` and `overdue unblock` on a real broker.

mod links;
pub(crate) mod place;
mod policies;
mod probes;
mod rules;
pub(crate) mod run;
mod shapes;
mod unblock;
