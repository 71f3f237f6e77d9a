//! Named rules about a topology file: all run, all reported. The list with reasons: docs/topology.md.

mod broker;
mod categories;
mod compat;
mod ladder;
mod lead;
mod levels;
mod names;
mod queues;
mod references;
mod retry;
mod surroundings;

mod version;

use super::file::TopologyFile;
use crate::diagnostic::{Diagnostic, Draft, Severity, Subject};
pub use surroundings::Surroundings;
pub use version::BrokerVersion;

/// A named check of a topology file.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Stays the same from version to version.
    pub name: &'static str,
    /// How bad its findings are.
    pub severity: Severity,
    run: fn(&TopologyFile, &Surroundings) -> Vec<Draft>,
}

const fn rule(
    severity: Severity,
    name: &'static str,
    run: fn(&TopologyFile, &Surroundings) -> Vec<Draft>,
) -> Rule {
    Rule { name, severity, run }
}

/// Every rule about the file, in the order in which findings at one place are reported.
pub const RULES: &[Rule] = &[
    rule(Severity::Error, "topology-name", names::topology),
    rule(Severity::Warning, "name-room", names::room),
    rule(Severity::Error, "levels-present", levels::present),
    rule(Severity::Note, "level-unused", levels::unused),
    rule(Severity::Error, "level-text", levels::text),
    rule(Severity::Error, "level-duplicate", levels::duplicate),
    rule(Severity::Error, "level-order", levels::order),
    rule(Severity::Error, "lead", lead::lead),
    rule(Severity::Error, "ladder", ladder::present),
    rule(Severity::Error, "ladder-short", ladder::too_long),
    rule(Severity::Error, "timeouts-present", references::timeouts_present),
    rule(Severity::Error, "timeout-name", names::timeout),
    rule(Severity::Error, "object-name", names::unique),
    rule(Severity::Error, "level-reference", references::levels),
    rule(Severity::Error, "effect-empty", references::effect_empty),
    rule(Severity::Note, "effect-unknown", references::effects),
    rule(Severity::Error, "category-empty", categories::empty),
    rule(Severity::Warning, "category-missing", categories::missing),
    rule(Severity::Warning, "at-most-once", queues::at_most_once),
    rule(Severity::Error, "delivery-limit", queues::delivery_limit),
    rule(Severity::Warning, "delivery-limit-low", queues::delivery_limit_low),
    rule(Severity::Warning, "delivery-limit-unused", queues::delivery_limit_unused),
    rule(Severity::Warning, "retry-missing", retry::missing),
    rule(Severity::Warning, "retry-short", retry::short),
    rule(Severity::Warning, "retry-shrinks", retry::shrinks),
    rule(Severity::Error, "compat-exchange", compat::exchange),
    rule(Severity::Error, "compat-strategy", compat::strategy),
    rule(Severity::Error, "compat-word", compat::word),
    rule(Severity::Warning, "compat-ladder", compat::without_ladder),
    rule(Severity::Error, "broker-version", broker::version),
    rule(Severity::Error, "broker-plugin", broker::plugin),
    rule(Severity::Warning, "broker-bug", broker::bug),
    rule(Severity::Note, "broker-untested", broker::untested),
];

/// Runs every rule about the file and returns the findings in the order of the file.
#[must_use]
pub(crate) fn check(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Diagnostic> {
    let whole = || Subject::File(file.name.span());
    let named = |rule: &Rule| {
        let Rule { name, severity, run } = *rule;
        let drafts = run(file, surroundings).into_iter();
        drafts.map(move |draft| draft.complete(name, severity, whole()))
    };
    let mut findings: Vec<Diagnostic> = RULES.iter().flat_map(named).collect();
    findings.sort_by_key(start);
    findings
}

/// The byte that a finding begins at.
pub(super) fn start(finding: &Diagnostic) -> usize {
    match &finding.subject {
        Subject::File(span) => span.start,
        _ => 0,
    }
}
