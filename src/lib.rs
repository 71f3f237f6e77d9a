//! `overdue` closes what was not done in time.
//!
//! Two flows, each one way:
//!
//! ```text
//! topology.toml ─parse─▶ Topology ─objects─▶ diff(desired, observed) ─▶ Plan ─apply─▶ broker
//! delivery ─decode─▶ DueNotice ─collect─▶ Batch ─close─▶ Outcome ─decide─▶ Disposition ─settle─▶ ack
//!                                                   (commit always precedes settle)
//! ```
//!
//! # What is guaranteed
//! - An order is brought to its final state at most once, and never before its deadline by the database's clock.
//! - A delivery is acked only after the commit that makes it superfluous, or after the confirm of its copy.
//! - Early, late, duplicated, unreadable and forged messages change nothing they should not.
//! - A plan loses no waiting message: queues are succeeded, drain, and are deleted when they are empty.
//!
//! # What is not
//! - A message lost on its way to the broker is healed by the sweep, after its grace period.
//! - Events are published at least once: a subscriber recognises copies by their `message-id`.
//! - Classic queues dead-letter at most once and are not replicated.
//!
//! # The map
//! Core, pure: [`topology`], [`plan`], [`order`], [`wire`], [`worker::batch`], [`worker::disposition`], and what is made of them:
//! [`graph`], [`export`], [`permissions`], [`verify`], [`doctor`]'s judgements.
//! Edges: [`broker`], [`store`], [`cli`]. `broker` and `store` do not know each other; [`worker`] joins them.

pub mod bench;
pub mod broker;
#[allow(
    clippy::doc_markdown,
    reason = "doc comments of arguments are help texts, shown as they are"
)]
pub mod cli;
pub mod config;
pub mod demo;
pub mod diagnostic;
pub mod doctor;
pub(crate) mod document;
pub mod drill;
pub mod export;
pub mod graph;
pub mod objects;
pub mod order;
pub mod order_service;
pub mod permissions;
pub mod plan;
pub mod secret;
pub mod shutdown;
pub mod statistics;
pub mod store;
pub mod telemetry;
mod text;
pub mod topology;
pub mod verify;
pub mod wire;
pub mod worker;
