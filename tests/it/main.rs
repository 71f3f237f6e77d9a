//! Worker, publisher and topology on a real broker and a real database.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it fails")]
#![allow(clippy::print_stderr, reason = "what a failing test says")]
#![allow(unreachable_pub, dead_code, reason = "`support` is shared, each tier uses another part")]

#[path = "../support/mod.rs"]
mod support;

mod bad_input;
mod bad_rows;
mod batches;
mod changes;
mod compat;
mod delayed;
mod deletion;
mod doctor;
mod events;
mod export;
mod generations;
mod harness;
mod hold;
mod hostile_sizes;
mod independent;
mod interrupted;
mod kill;
mod ladder;
mod ladder_publishers;
mod ladder_verify;
mod languages;
mod levels_gone;
mod lock;
mod locks;
mod management;
mod moving_deadlines;
mod nodes;
mod outage;
mod outcomes;
mod ownership;
mod permissions;
mod publisher;
mod quarantine;
mod races;
mod retire;
mod shutdown;
mod small_loops;
mod stuck_copies;
mod sweep;
mod terminal;
mod tls;
mod tls_variant;
mod topology;
mod unreadable;
mod verify;
