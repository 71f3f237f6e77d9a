//! What is wrong on a broker: differences from the topology, policies that override it, dead letters that are stuck.
//!
//! Readings come in, diagnostics go out. `cli/verify` and `cli/unblock` take the readings and print.

mod bindings;
pub(crate) mod blockers;
pub(crate) mod dead_letters;
pub(crate) mod exchange_policies;
mod held;
pub(crate) mod limits;
mod policies;
pub(crate) mod probe;
mod queues;
mod report;
pub(crate) mod rules;
mod shape;
pub(crate) mod stuck;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    diagnostic::{Diagnostic, Severity},
    plan::{
        diff::diff,
        generation::resolve,
        snapshot::{QueueStats, Snapshot},
    },
    topology::Topology,
};

pub(crate) use queues::queues_of;
pub use report::VerifyReport;

/// Everything that is wrong in one reading, worst first.
///
/// Dead letters are looked at in [`stuck`], because that takes two readings.
#[must_use]
pub fn findings(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> Vec<Diagnostic> {
    let resolved = resolve(topology, &observed.objects);
    let plan = diff(topology, observed, &BTreeSet::new());
    let mut found = shape::findings(topology, &plan, &resolved);
    found.extend(bindings::findings(topology, observed, &resolved));
    found.extend(rules::findings(topology, observed, &plan, &resolved));
    found.extend(policies::findings(topology, observed, stats));
    found.extend(held::findings(topology, observed));
    found.sort_by_key(|finding| Reverse(finding.severity));
    found
}

/// Whether anything is found that is more than a note.
#[must_use]
pub fn is_wrong(found: &[Diagnostic]) -> bool {
    found.iter().any(|finding| finding.severity > Severity::Note)
}
