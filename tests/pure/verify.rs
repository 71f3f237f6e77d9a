//! `overdue verify` on readings that are made up.

mod findings;
mod held_back;
mod large;
mod probe;
mod rules;
mod strategies;
mod stuck;

/// The clock of those readings that have nothing to do with it.
pub(crate) const NOW: jiff::Timestamp = jiff::Timestamp::UNIX_EPOCH;
