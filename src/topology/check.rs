//! Named rules about a topology file: all run, all reported. The list with reasons: docs/topology.md.

mod broker;
mod categories;
mod levels;
mod names;
pub mod objects;
mod queues;
mod references;
mod retry;

mod version;

use std::{collections::BTreeSet, ops::Range};

use serde::Serialize;

use super::{Topology, file::TopologyFile};
pub use objects::Defect;
pub use version::{BrokerVersion, BrokerVersionError};

/// What a finding means for the topology.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Severity {
    /// Good to know; nothing has to be done.
    Note,
    /// It works, but not as one would expect, or not for long.
    Warning,
    /// The topology cannot be used.
    Error,
}

/// One thing that is to be said about a topology file, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// Name of the rule, stable, for scripts and documentation.
    pub rule: &'static str,
    /// What it means for the topology.
    pub severity: Severity,
    /// Bytes of the file the finding is about.
    pub span: Range<usize>,
    /// What is wrong, and why.
    pub message: String,
    /// What to do.
    pub help: String,
}

/// What a rule knows besides the file.
#[derive(Clone, Debug, Default)]
pub struct Surroundings {
    /// The broker the topology is for; without it no rule about versions runs.
    pub broker: Option<BrokerVersion>,
    /// Effects whose SQL is in the settings; `close` is built in.
    pub effects: BTreeSet<String>,
}

/// A finding of a rule that knows its own name and severity.
struct Remark {
    span: Range<usize>,
    message: String,
    help: String,
}

impl Remark {
    fn new(span: Range<usize>, message: String, help: impl Into<String>) -> Self {
        Self { span, message, help: help.into() }
    }
}

/// A named check of a topology file.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name, stable.
    pub name: &'static str,
    /// What its findings mean.
    pub severity: Severity,
    run: fn(&TopologyFile, &Surroundings) -> Vec<Remark>,
}

const fn rule(
    severity: Severity,
    name: &'static str,
    run: fn(&TopologyFile, &Surroundings) -> Vec<Remark>,
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
    rule(Severity::Error, "broker-version", broker::version),
    rule(Severity::Warning, "broker-bug", broker::bug),
    rule(Severity::Note, "broker-untested", broker::untested),
];

/// Runs every rule about the file and returns the findings in the order of the file.
#[must_use]
pub fn check(file: &TopologyFile, surroundings: &Surroundings) -> Vec<Finding> {
    let named = |rule: &Rule| {
        let Rule { name, severity, run } = *rule;
        run(file, surroundings).into_iter().map(move |Remark { span, message, help }| Finding {
            rule: name,
            severity,
            span,
            message,
            help,
        })
    };
    let mut findings: Vec<Finding> = RULES.iter().flat_map(named).collect();
    findings.sort_by_key(|finding| finding.span.start);
    findings
}

/// Everything there is to say about the text of a `topology.toml`, in the order of the file.
///
/// Without errors the objects it becomes are checked too. No file should be able to break those rules; they
/// are here so that it would be found before a broker finds it.
#[must_use]
pub fn lint(text: &str, surroundings: &Surroundings) -> Vec<Finding> {
    let file = match super::read(text) {
        Ok(file) => file,
        Err(finding) => return vec![finding],
    };
    let mut findings = check(&file, surroundings);
    if findings.iter().all(|finding| finding.severity < Severity::Error) {
        match Topology::from_file(&file) {
            Err(unreadable) => findings.extend(unreadable),
            Ok(topology) => {
                let defects = objects::check(&topology.objects());
                findings.extend(defects.into_iter().map(|defect| Finding {
                    rule: defect.rule,
                    severity: defect.severity,
                    span: file.name.span(),
                    message: defect.message,
                    help: defect.help,
                }));
            }
        }
    }
    findings.sort_by_key(|finding| finding.span.start);
    findings
}
