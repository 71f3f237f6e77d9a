//! Findings as they are printed: the next step with the virtual host in it.

use serde::Serialize;

use super::{Drift, Next, Severity, is_drift, probe::Probe, sorted};
use crate::{objects::Binding, plan::snapshot::Snapshot, topology::Topology};

/// Version of `verify -o json`.
const VERSION: u32 = 1;

/// The answer of `overdue verify`.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Report {
    /// Of this format.
    pub version: u32,
    /// The topology's name.
    pub topology: String,
    /// The virtual host that was read.
    pub virtual_host: String,
    /// The one-line summary.
    pub summary: String,
    /// Whether everything is as it should be; notes do not count.
    pub in_order: bool,
    /// Worst first.
    pub findings: Vec<Finding>,
    /// What became of the canaries, where they were sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub probe: Option<Probe>,
}

/// A finding with its next step as text.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Finding {
    /// What was found.
    #[serde(flatten)]
    pub drift: Drift,
    /// The next command, or what to do.
    pub next: String,
}

impl Report {
    /// A report about `topology` in `virtual_host`.
    #[must_use]
    pub fn new(
        topology: &Topology,
        virtual_host: &str,
        observed: &Snapshot,
        mut found: Vec<Drift>,
        probe: Option<Probe>,
    ) -> Self {
        found.extend(probe.iter().flat_map(|probe| probe.findings.clone()));
        let found = sorted(found);
        let in_order = !is_drift(&found);
        let summary = summary(topology, observed, &found);
        let finding = |drift: Drift| {
            let next = drift.next.text(&topology.name, virtual_host);
            Finding { drift, next }
        };
        Self {
            version: VERSION,
            topology: topology.name.clone(),
            virtual_host: virtual_host.to_owned(),
            summary,
            in_order,
            findings: found.into_iter().map(finding).collect(),
            probe,
        }
    }
}

fn summary(topology: &Topology, observed: &Snapshot, found: &[Drift]) -> String {
    let count = |severity| found.iter().filter(|drift| drift.severity == severity).count();
    let parts = [
        (count(Severity::Danger), "danger", "dangers"),
        (count(Severity::Drift), "drift", "drifts"),
        (count(Severity::Note), "note", "notes"),
    ];
    let list: Vec<String> = parts
        .into_iter()
        .filter(|(count, ..)| *count > 0)
        .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
        .collect();
    let list = list.join(", ");
    if is_drift(found) {
        return format!("drift: {list}");
    }
    let queues = super::queues_of(topology, observed).len();
    let notes = if list.is_empty() { list } else { format!("; {list}") };
    format!("in order: the broker has topology {}, {queues} queues{notes}", topology.name)
}

impl Next {
    /// The command, or what to do, for a topology in a virtual host.
    #[must_use]
    pub fn text(&self, topology: &str, virtual_host: &str) -> String {
        let vhost = quote(virtual_host);
        match self {
            Self::Apply => "overdue apply".to_owned(),
            Self::Unblock(queue) => format!("overdue unblock {queue}, once it is mended"),
            Self::Unbind(binding) => unbind(binding, &vhost),
            Self::Policies { policy, operator } => {
                let clear = |name: &Option<String>, command: &str| {
                    let name = quote(name.as_deref()?);
                    Some(format!("rabbitmqctl {command} -p {vhost} {name}"))
                };
                let commands =
                    [clear(policy, "clear_policy"), clear(operator, "clear_operator_policy")];
                let commands: Vec<String> = commands.into_iter().flatten().collect();
                format!(
                    "narrow its pattern so that it leaves {topology}. alone, or clear it: {}",
                    commands.join("; ")
                )
            }
            Self::Other(text) => text.clone(),
        }
    }
}

fn unbind(binding: &Binding, vhost: &str) -> String {
    let Binding { source, destination, to_queue, routing_key, arguments } = binding;
    if !arguments.is_empty() {
        return format!(
            "take the binding of {destination} away in the management UI (it has arguments)"
        );
    }
    let kind = if *to_queue { "queue" } else { "exchange" };
    format!(
        "rabbitmqadmin --vhost {vhost} bindings delete --source {} --destination-type {kind} --destination {} \
         --routing-key {}",
        quote(source),
        quote(destination),
        quote(routing_key)
    )
}

/// `text` as one word of a shell command.
fn quote(text: &str) -> String {
    crate::text::shell::quote(text)
}
