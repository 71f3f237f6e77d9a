//! Broker, database and workers that die and come back while orders come due.
//!
//! Most of these tests stop and start broker or database of a second stack (`docker/services.sh up chaos`), which nothing else
//! uses: one test at a time has each of the two. Those that kill only workers, or delete a queue, run on main, and `failover` starts a
//! pair of databases of its own.

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
mod both_away;
mod broker_away;
mod database_away;
mod failover;
mod outbox;
mod queue_deleted;
mod unconfirmed;
mod workers_killed;
