//! Findings about a broker: differences from the topology, policies that override it, stuck dead letters.
//!
//! `cli/verify` reads the broker and prints; this module turns readings into diagnostics.

pub(crate) mod dead_letters;
pub(crate) mod effective_settings;
mod foreign_bindings;
pub(crate) mod held_back;
mod plan_findings;
pub(crate) mod policies;
pub(crate) mod probe;
pub(crate) mod remaining_routes;
mod report;

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use jiff::Timestamp;

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::routing::near,
    plan::{
        Note, Plan, count_of,
        diff::diff,
        generation::resolve,
        own_queues::{Kind, role},
        snapshot::{QueueStats, Snapshot},
    },
    text::counted,
    topology::{Topology, strategy::Strategy},
};

pub use report::VerifyReport;

/// All findings of one reading, worst first.
///
/// [`dead_letters`] judges dead letters, because it needs two readings. `now` may come from any clock.
pub fn findings(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
    now: Timestamp,
) -> Vec<Diagnostic> {
    let compat = topology.compat.as_ref().map(|compat| compat.exchange.as_str());
    let is_ours = |name: &str| {
        let rest = name.strip_prefix(&topology.name).and_then(|rest| rest.strip_prefix('.'));
        rest.is_some() || compat == Some(name)
    };
    let objects = near(&observed.objects, is_ours);
    let observed = &Snapshot { objects, ..observed.clone() };
    let resolved = resolve(topology, &observed.objects);
    let plan = diff(topology, observed, &BTreeSet::new());
    let mut found = plan_findings::findings(topology, &plan, &resolved);
    found.extend(foreign_consumers(topology, observed, &plan));
    found.extend(foreign_bindings::findings(topology, observed, &plan, &resolved));
    found.extend(remaining_routes::findings(topology, observed, &plan, &resolved));
    found.extend(policies::findings(topology, observed, stats));
    found.extend(policies::of_exchanges(topology, observed));
    found.extend(held_back::findings(topology, observed, stats, now));
    found.extend(held_in_memory(topology, observed));
    found.sort_by_key(|finding| Reverse(finding.severity));
    found
}

/// Foreign consumers of queues in use. A note of the plan reports consumers of retired queues.
fn foreign_consumers(topology: &Topology, observed: &Snapshot, plan: &Plan) -> Vec<Diagnostic> {
    let given_up = |queue: &str| {
        plan.notes
            .iter()
            .any(|note| matches!(note, Note::Consumed { queue: it, .. } if it == queue))
    };
    let found = observed.foreign_consumers.iter().filter(|(queue, _)| !given_up(queue));
    let found = found.filter_map(|(name, consumers)| {
        let why = match role(topology, &observed.objects, observed.objects.queues.get(name)?)? {
            Kind::Delay(_) => "they take notices before they are due, and for good",
            Kind::Business => {
                "they take notices in place of the workers: those orders wait for the sweep"
            }
            Kind::Parked => return None,
        };
        let message = format!("{} of another client", counted(*consumers, "consumer"));
        let fix = "stop them: the queue's page of the management UI shows their connections";
        let found = Diagnostic::new(
            "foreign-consumer",
            Severity::Error,
            Subject::Queue(name.clone()),
            message,
        );
        Some(found.because(why).fix(Fix::Text(fix.to_owned())))
    });
    found.collect()
}

/// Whether a finding is more than a note.
pub fn is_wrong(found: &[Diagnostic]) -> bool {
    found.iter().any(|finding| finding.severity > Severity::Note)
}

/// A note with the number of messages in the plugin's exchange, if it is known, and their risk.
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
