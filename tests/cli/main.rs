//! The binary: exit codes, and every text that a person reads.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it fails")]
#![allow(clippy::print_stderr, reason = "what a failing test says")]
#![allow(unreachable_pub, dead_code, reason = "`support` is shared, each tier uses another part")]

#[macro_use]
extern crate macro_rules_attribute;

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod alerts;
mod apply;
mod broker_errors;
mod commands;
mod database_errors;
mod demo;
mod documented;
mod explain;
mod export;
mod files;
mod init;
mod no_plugin;
mod operations;
mod prompt;
mod publish;
mod runs;
mod settings;
mod startup;
mod unread;
