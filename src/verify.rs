//! What is wrong on a broker: differences from the topology, policies that override it, dead letters that are stuck.
//!
//! Readings come in, diagnostics go out. `cli/verify` and `cli/unblock` take the readings and print.

pub(crate) mod dead_letters;
pub(crate) mod effective_settings;
mod foreign_bindings;
mod plan_findings;
pub(crate) mod policies;
pub(crate) mod probe;
pub(crate) mod remaining_routes;
mod report;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    plan::{
        count_of,
        diff::diff,
        generation::resolve,
        snapshot::{QueueStats, Snapshot},
    },
    topology::{Topology, strategy::Strategy},
};

pub use report::VerifyReport;

/// Everything that is wrong in one reading, worst first.
///
/// Dead letters are looked at in [`dead_letters`], because that takes two readings.
#[must_use]
pub fn findings(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> Vec<Diagnostic> {
    let resolved = resolve(topology, &observed.objects);
    let plan = diff(topology, observed, &BTreeSet::new());
    let mut found = plan_findings::findings(topology, &plan, &resolved);
    found.extend(foreign_bindings::findings(topology, observed, &resolved));
    found.extend(remaining_routes::findings(topology, observed, &plan, &resolved));
    found.extend(policies::findings(topology, observed, stats));
    found.extend(held_in_memory(topology, observed));
    found.sort_by_key(|finding| Reverse(finding.severity));
    found
}

/// Whether anything is found that is more than a note.
#[must_use]
pub fn is_wrong(found: &[Diagnostic]) -> bool {
    found.iter().any(|finding| finding.severity > Severity::Note)
}

/// How many there are, where that is known, and what that is worth.
fn held_in_memory(topology: &Topology, observed: &Snapshot) -> Option<Diagnostic> {
    let name = topology.delayed_exchange();
    let there = observed.objects.exchanges.contains_key(&name);
    let message = match observed.delayed.get(&name) {
        Some(held) => format!("it holds {}", count_of(Some(*held))),
        None => "how many messages it holds is not known: each node counts its own".to_owned(),
    };
    (there && topology.strategy == Strategy::DelayedExchange).then(|| Diagnostic::new("held-in-memory", Severity::Note, Subject::Exchange(name), message).because("they are in memory of one node, in one copy, and cannot be listed: where that node is lost, only the \
             sweep finds their orders").fix(Fix::Text(
            "nothing, if that is meant; a ladder keeps messages in queues (docs/topology.md)".to_owned(),
        )))
}
