//! The linter, the schema and the pictures. To be folded into `tests/pure`, which has the same `generate`.

#![allow(clippy::expect_used, reason = "a test that cannot go on is to fail, and to say where")]

mod check_broker;
mod check_cli;
mod check_documented;
mod check_objects;
mod check_rules;
mod check_schema;
mod check_topic;
#[allow(dead_code, reason = "a copy of tests/pure/generate.rs")]
mod generate;
mod graph_layout;
mod graph_live;
mod graph_text;
