//! Broker, database and workers that die and come back while orders come due.
//!
//! These tests stop and start the containers of a second stack (`docker/services.sh up chaos`), which
//! nothing else uses, and so run one after the other.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it fails")]
#![allow(clippy::print_stderr, reason = "what a failing test says")]
#![allow(unreachable_pub, dead_code, reason = "`support` is shared, each tier uses another part")]

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
