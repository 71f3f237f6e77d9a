//! The answer of `overdue verify`, for people and for programs.

use std::{cmp::Reverse, fmt};

use serde::Serialize;

use super::probe::Probe;
use crate::{
    diagnostic::{Diagnostic, Rendered, Severity, Target, counts_by_severity},
    plan::{own_queues::queues_of, snapshot::Snapshot},
    text::{counted, one_line},
    topology::Topology,
};

/// The format version of `verify -o json`.
const VERSION: u32 = 2;

/// The answer of `overdue verify`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct VerifyReport {
    /// The format version.
    pub version: u32,
    /// Whether there is no finding above a note.
    pub ok: bool,
    /// The topology's name.
    pub topology: String,
    /// The virtual host that was read.
    pub virtual_host: String,
    /// The last line of the text output.
    pub summary: String,
    /// Sorted by severity, worst first.
    pub findings: Vec<Rendered>,
    /// The results of the canaries, if they were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
}

impl VerifyReport {
    /// A report about `topology` in `virtual_host`.
    pub fn new(
        topology: &Topology,
        virtual_host: &str,
        observed: &Snapshot,
        mut found: Vec<Diagnostic>,
        probe: Option<Probe>,
    ) -> Self {
        found.extend(probe.iter().flat_map(|probe| probe.findings.clone()));
        found.sort_by_key(|finding| Reverse(finding.severity));
        let ok = found.iter().all(|finding| finding.severity <= Severity::Note);
        let target = Target { topology: &topology.name, virtual_host };
        Self {
            version: VERSION,
            ok,
            topology: topology.name.clone(),
            virtual_host: virtual_host.to_owned(),
            summary: summary(topology, observed, &found, ok),
            findings: found.iter().map(|finding| finding.rendered(&target)).collect(),
            probe,
        }
    }
}

fn summary(topology: &Topology, observed: &Snapshot, found: &[Diagnostic], ok: bool) -> String {
    let name = &topology.name;
    let counts = counts_by_severity(found.iter().map(|finding| finding.severity));
    if !ok {
        return format!("NOT OK: topology `{name}` on this broker has {counts}");
    }
    let queues = counted(queues_of(topology, &observed.objects).len(), "queue");
    let notes = if counts.is_empty() { counts } else { format!("; {counts}") };
    format!("OK: topology `{name}` matches the broker, {queues}{notes}")
}

impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for Rendered { severity, subject, message, reason, fix, .. } in &self.findings {
            writeln!(f, "{severity:7}  {}: {}", one_line(subject), one_line(message))?;
            for (title, text) in [("why", reason), ("fix", fix)] {
                if let Some(text) = text {
                    writeln!(f, "         {title}: {}", one_line(text))?;
                }
            }
            writeln!(f)?;
        }
        if let Some(probe) = &self.probe {
            writeln!(f, "{probe}")?;
        }
        f.write_str(&self.summary)
    }
}
