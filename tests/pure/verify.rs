//! `overdue verify` on readings that are made up.

mod findings;
mod probe;
mod rules;
mod strategies;
mod stuck;
