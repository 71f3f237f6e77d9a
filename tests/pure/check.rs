//! The findings of `overdue check` on a topology file.

mod broker;
mod documented;
mod rules;
mod schema;
mod topic;
