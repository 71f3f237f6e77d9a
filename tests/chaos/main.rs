//! Broker, database and workers that die and come back while orders come due.
//!
//! The storms are most of it: faults one after the other, and two at once. The other tests are about faults whose result no storm shows.
//! A test that stops broker or database of the second stack (`docker/services.sh up chaos`) has it to itself; those that suspend a queue
//! there share it. What kills only workers or deletes a queue runs on main, and `failover` starts a pair of databases of its own.

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
