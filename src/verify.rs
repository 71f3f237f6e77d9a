//! What is wrong on a broker: drift from the topology, policies that beat it, dead letters that stand still.
//!
//! Readings come in, findings go out. `cli/verify` and `cli/unblock` take the readings and print.

mod bindings;
pub mod blockers;
mod limits;
mod policies;
pub mod probe;
mod report;

mod shape;
pub mod stuck;
mod text;

use std::collections::{BTreeMap, BTreeSet};

use serde::Serialize;

use crate::{
    objects::{Binding, Queue},
    plan::{
        diff::diff,
        generation::{Kind, Resolved, kind, number_of, resolve},
        snapshot::Snapshot,
        stats::QueueStats,
    },
    topology::Topology,
};

pub use report::Report;

/// How bad a finding is. Anything but a note is drift.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Messages can be lost, come early, or stand still.
    Danger,
    /// The broker is not as the topology says; messages still arrive.
    Drift,
    /// Worth knowing; nothing is wrong.
    Note,
}

/// A finding: what is not as it should be, why that matters, and what to do.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Drift {
    /// How bad it is.
    pub severity: Severity,
    /// The rule that found it, e.g. `missing-binding`; stays the same from version to version.
    pub rule: &'static str,
    /// What it is about, e.g. `queue orders.delay.30m`.
    pub object: String,
    /// What was found.
    pub what: String,
    /// What comes of it.
    pub why: String,
    /// What to do.
    #[serde(skip)]
    pub next: Next,
}

/// The next step, without the virtual host, which only a command line knows.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Next {
    /// `overdue apply`
    Apply,
    /// `overdue unblock`, once what blocked this queue is mended.
    Unblock(String),
    /// Take this binding away.
    Unbind(Binding),
    /// Narrow or clear what applies: a policy, an operator policy, or both.
    Policies {
        /// The policy.
        policy: Option<String>,
        /// The operator policy.
        operator: Option<String>,
    },
    /// Something else, in words.
    Other(String),
}

/// Everything that is wrong in one reading, worst first.
///
/// Dead letters are looked at in [`stuck`], because that takes two readings.
#[must_use]
pub fn findings(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> Vec<Drift> {
    let resolved = resolve(topology, &observed.objects);
    let plan = diff(topology, observed, &BTreeSet::new());
    let mut found = shape::findings(topology, &plan, &resolved);
    found.extend(bindings::findings(topology, observed, &resolved));
    found.extend(policies::findings(topology, observed, stats));
    sorted(found)
}

/// Worst first; findings of one severity stay in the order they were found.
#[must_use]
pub fn sorted(mut found: Vec<Drift>) -> Vec<Drift> {
    found.sort_by_key(|drift| drift.severity);
    found
}

/// Whether anything is found that is more than a note.
#[must_use]
pub fn is_drift(found: &[Drift]) -> bool {
    found.iter().any(|drift| drift.severity != Severity::Note)
}

/// What a queue is to the topology, retired generations and queues of another shape included; `None` is foreign.
fn role<'a>(topology: &Topology, queue: &'a Queue) -> Option<Kind<'a>> {
    kind(topology, queue).or_else(|| {
        let mut bases = topology.timeouts.iter().map(|timeout| topology.business_queue(timeout));
        bases.any(|base| number_of(&base, &queue.name).is_some()).then_some(Kind::Business)
    })
}

/// Names of the queues of `topology` that are there, retired ones included.
#[must_use]
pub fn queues_of(topology: &Topology, observed: &Snapshot) -> Vec<String> {
    let queues = observed.objects.queues.values();
    let ours = queues.filter(|queue| role(topology, queue).is_some());
    ours.map(|queue| queue.name.clone()).collect()
}

/// Whether a queue is one that a probe made for itself.
fn is_probe(topology: &Topology, queue: &str) -> bool {
    let rest = queue.strip_prefix(&topology.name).and_then(|rest| rest.strip_prefix(".probe."));
    rest.is_some_and(|rest| !rest.is_empty())
}

/// Whether a queue is in use now, not a generation that drains.
fn is_current(resolved: &Resolved, queue: &str) -> bool {
    resolved.objects.queues.contains_key(queue)
}
