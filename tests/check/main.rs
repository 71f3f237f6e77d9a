//! The linter, the schema and the pictures.

#![allow(clippy::expect_used, reason = "a test that cannot go on is to fail, and to say where")]

mod check_broker;
mod check_cli;
mod check_documented;
mod check_objects;
mod check_rules;
mod check_schema;
mod check_topic;
#[allow(dead_code, reason = "the pure tier uses more of it")]
#[path = "../pure/generate.rs"]
mod generate;
mod graph_layout;
mod graph_live;
mod graph_text;
