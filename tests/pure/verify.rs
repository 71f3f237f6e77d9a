//! `overdue verify` on readings that are made up.

mod findings;
mod large;
mod probe;
mod rules;
mod strategies;
mod stuck;
