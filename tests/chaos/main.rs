//! Broker, database and workers fail and recover while orders are due.
//!
//! Most of it are the storms: faults one after the other, and two at once. The other tests are about faults whose result no storm shows.
//! A test that stops broker or database of the second stack (`docker/services.sh up chaos`) locks it for itself; tests that suspend a queue
//! there share it. Tests that only kill workers or delete a queue run on main, and `failover` starts a pair of databases of its own.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it fails")]
#![allow(clippy::print_stderr, reason = "what a failing test says")]
#![allow(unreachable_pub, dead_code, reason = "`support` is shared, each tier uses another part")]

#[macro_use]
extern crate macro_rules_attribute;

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod containers;
mod load;
mod networks;
mod pair;
mod stage;
mod storm;

mod alarm;
mod broker_killed;
mod failover;
mod queue_deleted;
mod unconfirmed;
