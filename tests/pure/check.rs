//! What `overdue check` finds in a topology file.

mod broker;
mod documented;
mod rules;
mod schema;
mod topic;
