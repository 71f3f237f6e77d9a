//! The pure tier: no broker, no database, no clock. Runs in seconds on any machine.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    reason = "a test that cannot go on is to fail, and to say where"
)]

mod again;
mod alerting;
mod architecture;
mod batch_and_disposition;
mod bisection;
mod broker_model;
mod built_in_effects;
mod check;
mod compat;
mod copies;
mod database_clock;
mod delivery_tags;
mod destination_window;
mod doctor;
mod documents;
mod effect_plan;
mod effect_watch;
mod export;
mod final_state;
mod forecast;
mod frames;
mod generate;
mod graph;
mod kept_bytes;
mod ladder;
mod ladder_properties;
mod ladder_vectors;
mod lead;
mod level_routes;
mod life;
mod log_lines;
mod low_watermark;
mod messages;
mod metrics;
mod order_wire;
mod parking;
mod parking_texts;
mod permissions;
mod plan_conflicts;
mod plan_deletion;
mod plan_fingerprint;
mod plan_properties;
mod plan_safety;
mod plan_table;
mod printable;
mod proposal;
mod queue_stats;
mod readiness;
mod recently_closed;
#[allow(unreachable_pub, dead_code, reason = "shared with the other tiers")]
#[path = "../support/samples.rs"]
mod samples;
mod secret;
mod sqlstate;
mod status;
mod timing;
mod topology_objects;
mod topology_properties;
mod topology_removal;
mod topology_route;
mod traces;
mod verify;
mod why;
