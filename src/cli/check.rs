//! `overdue check`: every finding about the topology file, without a broker.

use clap::Args;

use super::{
    exit::{self, Failure},
    output::{Output, print, print_json},
    setup::topology_text,
};
use crate::{
    config::Settings,
    diagnostic::{Diagnostic, Severity, counts_by_severity},
    text::counted,
    topology::{
        Topology,
        check::{BrokerVersion, Surroundings},
        lint,
        report::{self, Report},
    },
};

/// Check the topology file, without a broker
#[derive(Debug, Args)]
pub(super) struct Check {
    /// Check that this RabbitMQ version can do it as well, e.g. 4.0 or 4.3.2
    #[arg(long, value_name = "VERSION")]
    broker: Option<BrokerVersion>,
    #[command(flatten)]
    output: Output,
    /// Exit with 2 if there are warnings; notes do not count
    #[arg(long)]
    deny_warnings: bool,
}

impl Check {
    pub(super) fn run(&self, settings: &Settings) -> Result<(), Failure> {
        let (path, text) = topology_text(settings)?;
        let surroundings = Surroundings {
            broker: self.broker,
            effects: settings.effects.keys().cloned().collect(),
        };
        let findings = lint(&text, &surroundings);
        if self.output.is_json() {
            print_json(&Report::new(&text, &findings))?;
        } else {
            for finding in &findings {
                let shown = report::render(&path, &text, std::slice::from_ref(finding));
                print(format!("{shown}\n\n"))?;
            }
        }
        self.verdict(&path, &findings)?;
        match Topology::parse(&text) {
            Ok(topology) if !self.output.is_json() => print(summary(&topology, &findings)),
            _ => Ok(()),
        }
    }

    fn verdict(&self, path: &str, findings: &[Diagnostic]) -> Result<(), Failure> {
        let counts = counts_by_severity(findings.iter().map(|finding| finding.severity));
        match findings.iter().map(|finding| finding.severity).max() {
            Some(Severity::Error) => Err(Failure::configuration(format!("{path}: {counts}"))),
            Some(Severity::Warning) if self.deny_warnings => Err(Failure {
                code: exit::FINDINGS,
                text: format!("{path}: {counts}, and --deny-warnings is set"),
            }),
            _ => Ok(()),
        }
    }
}

/// Summary of a valid topology, in one line.
fn summary(topology: &Topology, findings: &[Diagnostic]) -> String {
    let valid = format!(
        "topology `{}` is valid: strategy `{}`, {}, {}, {}",
        topology.name,
        topology.strategy.as_str(),
        topology.delays_in_short(),
        counted(topology.timeouts.len(), "timeout"),
        counted(topology.retry.len(), "retry"),
    );
    let counts = counts_by_severity(findings.iter().map(|finding| finding.severity));
    if counts.is_empty() { valid } else { format!("{valid}; {counts}") }
}
