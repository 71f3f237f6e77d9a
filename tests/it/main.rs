//! Worker, publisher and topology on a real broker and a real database.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test ends where it fails")]
#![allow(clippy::print_stderr, reason = "what a failing test says")]
#![allow(unreachable_pub, dead_code, reason = "`support` is shared, each tier uses another part")]

#[macro_use]
extern crate macro_rules_attribute;

#[macro_use]
#[path = "../support/mod.rs"]
mod support;

mod actions;
mod again;
mod alerts;
mod bad_input;
mod bad_rows;
mod batches;
mod burst_faults;
mod burst_passes;
mod bursts;
mod changes;
mod clock_leaps;
mod compat;
mod connection_ends;
mod delayed;
mod deletion;
mod delivery_limit;
mod described;
mod doctor;
mod effect_check;
mod effect_watch;
mod events;
mod export;
mod forecast;
mod generations;
mod gone;
mod harness;
mod health;
mod held_back;
mod history;
mod hold;
mod horizon;
mod hostile_sizes;
mod independent;
mod init_tables;
mod interleavings;
mod interrupted;
mod invariants;
mod kill;
mod ladder;
mod ladder_verify;
mod languages;
mod large_tables;
mod lead;
mod levels_gone;
mod lock;
mod locks;
mod management;
mod metrics;
mod moving_deadlines;
mod nodes;
mod operations;
mod outage;
mod outcomes;
mod own_tables;
mod ownership;
mod page;
mod parked;
mod parked_late;
mod parked_replay;
mod partitions;
mod passwords;
mod pauses;
mod permissions;
mod pooler;
mod publisher;
mod punctual;
mod races;
mod readme;
mod rebuild;
mod rebuild_interrupted;
mod recipes;
mod relays;
mod released;
mod removal;
mod remove;
mod retire;
mod scheduled;
mod schemas;
mod search_path;
mod shards;
mod shutdown;
mod slow_rows;
mod small_loops;
mod spans;
mod stalled_log;
mod statement;
mod states;
mod status;
mod staying_rows;
mod strategy_change;
mod stuck_copies;
mod sweep;
mod terminal;
mod tls;
mod tls_variant;
mod topology;
mod traces;
mod trials;
mod ui;
mod unmoved;
mod unreadable;
mod verify;
mod why;
mod work_log;
mod wrong_clock;
