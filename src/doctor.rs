//! A diagnosis of broker, database and machine: a table of checks. Each check is a function from facts to a finding.
//!
//! `administration::health` and `store::health` gather the facts; this module does no I/O. If a fact could not be gathered,
//! its checks are warnings that name the missing right or service; the other checks still run.

pub(crate) mod broker;
pub mod database;
pub(crate) mod effect_plan;
pub(crate) mod facts;
pub mod horizon;
pub(crate) mod known_defects;
pub mod machine;
pub mod topology;

use std::fmt;

use serde::Serialize;

use crate::diagnostic::{
    Diagnostic, Draft, Rendered, Severity, Subject, Target, counts_by_severity,
};
use crate::text::one_line;
use facts::{AlertFacts, Facts};

/// The format version of `doctor -o json`.
const VERSION: u32 = 2;

/// A check of the report.
pub struct Check {
    /// `Broker`, `Topology`, `Database` or `Machine`.
    pub area: &'static str,
    /// Stable across versions; unique in its area.
    pub name: &'static str,
    /// Judges the facts.
    pub judge: fn(&Facts) -> Draft,
}

const fn check(area: &'static str, name: &'static str, judge: fn(&Facts) -> Draft) -> Check {
    Check { area, name, judge }
}

const BROKER: &str = "Broker";
const TOPOLOGY: &str = "Topology";
const DATABASE: &str = "Database";
const MACHINE: &str = "Machine";
/// The findings of `overdue verify` follow this check.
const VERIFY: &str = "verify";

/// Every check, in the order of the report.
pub const CHECKS: &[Check] = &[
    check(BROKER, "reachable", broker::reachable),
    check(BROKER, "login", broker::login),
    check(BROKER, "virtual-host", broker::virtual_host),
    check(BROKER, "tls", broker::tls),
    check(BROKER, "publishing", broker::publishing),
    check(BROKER, "management-api", broker::management_api),
    check(BROKER, "version", broker::version),
    check(BROKER, "known-defects", known_defects::known_defects),
    check(BROKER, "feature-flags", broker::feature_flags),
    check(BROKER, "deprecated-features", broker::deprecated_features),
    check(BROKER, "plugins", broker::plugins),
    check(BROKER, "memory-alarm", broker::memory_alarm),
    check(BROKER, "disk-alarm", broker::disk_alarm),
    check(BROKER, "replicas", broker::replicas),
    check(BROKER, "clock", machine::broker_clock),
    check(TOPOLOGY, "file", topology::file),
    check(TOPOLOGY, "administrator-rights", topology::administrator),
    check(TOPOLOGY, "worker-rights", topology::worker),
    check(TOPOLOGY, "applied", topology::applied),
    check(TOPOLOGY, VERIFY, topology::verified),
    check(TOPOLOGY, "consumers", topology::consumers),
    check(TOPOLOGY, "dead-letters", topology::dead_letters),
    check(TOPOLOGY, "parked", topology::parked),
    check(DATABASE, "reachable", database::reachable),
    check(DATABASE, "login", database::login),
    check(DATABASE, "tls", database::tls),
    check(DATABASE, "version", database::version),
    check(DATABASE, "writable", database::writable),
    check(DATABASE, "connections", database::connections),
    check(DATABASE, "pooler", database::pooler),
    check(DATABASE, "lock-timeout", database::lock_timeout),
    check(DATABASE, "clock", machine::database_clock),
    check(DATABASE, "clocks-agree", machine::clocks_agree),
    check(DATABASE, "commit-timestamps", database::commit_timestamps),
    check(DATABASE, "tables", database::ours),
    check(DATABASE, "search-path", database::search_path),
    check(DATABASE, "effects", database::effects),
    check(DATABASE, "closing", database::closing),
    check(DATABASE, "sweep-index", database::sweep_index),
    check(DATABASE, "xmin-horizon", horizon::xmin_horizon),
    check(DATABASE, "outbox", database::outbox),
    check(DATABASE, "schedule", database::notices),
    check(MACHINE, "open-files", machine::open_files),
    check(MACHINE, "cores", machine::cores),
    check(MACHINE, "secret-files", machine::secret_files),
];

/// The findings of all checks.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct DoctorReport {
    /// The format version.
    version: u32,
    /// Whether there is no error.
    pub ok: bool,
    /// The last line of the text output.
    pub summary: String,
    /// In the order of [`CHECKS`], then each alert.
    pub checks: Vec<Rendered>,
}

/// Runs all checks on the same facts.
pub fn diagnose(facts: &Facts) -> DoctorReport {
    let run = |check: &Check| -> Diagnostic {
        (check.judge)(facts).complete(check.name, Severity::Ok, Subject::Area(check.area))
    };
    let mut checks = Vec::new();
    for check in CHECKS {
        checks.push(run(check));
        if check.name == VERIFY {
            checks.extend(found(facts));
        }
    }
    checks.extend(facts.alerts.iter().map(alert));
    let severities = || checks.iter().map(|check| check.severity);
    let topology = facts.topology.as_ref().map_or("", |topology| &topology.name);
    let target = Target { topology, virtual_host: &facts.broker.virtual_host };
    DoctorReport {
        version: VERSION,
        ok: severities().all(|severity| severity < Severity::Error),
        summary: format!("{} checks: {}", checks.len(), counts_by_severity(severities())),
        checks: checks.iter().map(|check| check.rendered(&target)).collect(),
    }
}

/// Findings of `overdue verify` that `overdue apply` does not fix; the check `applied` covers the others.
fn found(facts: &Facts) -> impl Iterator<Item = Diagnostic> {
    let found = facts.verified.iter().flatten();
    found.filter(|finding| !topology::is_applied(finding)).map(|finding| Diagnostic {
        subject: Subject::Area(TOPOLOGY),
        message: format!("{}: {}", finding.subject, finding.message),
        ..finding.clone()
    })
}

/// An alert as a check; its test message is another check.
fn alert(AlertFacts { alert, to, answer }: &AlertFacts) -> Diagnostic {
    let fix = "docs/alerts.md says what each of them needs";
    let (name, draft) = match (to, answer) {
        (Err(reason), _) => {
            ("usable", Draft::error(format!("{alert} cannot be used: {reason}"), fix))
        }
        (Ok(to), None) => {
            ("usable", Draft::ok(format!("{alert} ({to}) can be used; --send-alert tries it")))
        }
        (Ok(to), Some(Ok(answer))) => {
            ("sent", Draft::ok(format!("{alert} ({to}) is taken: {answer}")))
        }
        (Ok(to), Some(Err(reason))) => {
            ("sent", Draft::error(format!("{alert} ({to}) is not taken: {reason}"), fix))
        }
    };
    draft.complete(name, Severity::Ok, Subject::Area("Alerts"))
}

impl fmt::Display for DoctorReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.checks.iter().map(|check| check.rule.len()).max().unwrap_or_default();
        let mut before = None;
        for Rendered { rule, severity, subject, message, fix, .. } in &self.checks {
            if before != Some(subject) {
                writeln!(f, "{subject}")?;
                before = Some(subject);
            }
            writeln!(f, "  {severity:7}  {rule:width$}  {}", one_line(message))?;
            if let Some(fix) = fix {
                writeln!(f, "  {:7}  {:width$}  fix: {}", "", "", one_line(fix))?;
            }
        }
        f.write_str(&self.summary)
    }
}
