//! Policies of exchanges. Everywhere but at the exchange of the plugin the topology's own argument wins, or nothing is lost.

use std::collections::BTreeMap;

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::DELAYED_MESSAGE,
    plan::snapshot::{AppliedPolicy, Snapshot},
    topology::Topology,
};

const ALTERNATE: &str = "alternate-exchange";

/// An alternate exchange gets at once what the plugin is to hold, and when it is due it comes again.
#[must_use]
pub fn findings(
    topology: &Topology,
    observed: &Snapshot,
    policies: &BTreeMap<String, AppliedPolicy>,
) -> Vec<Diagnostic> {
    let name = topology.delayed_exchange();
    let there = observed.objects.exchanges.get(&name);
    let holds = there.is_some_and(|exchange| exchange.kind == DELAYED_MESSAGE);
    let applied = policies.get(&name).filter(|_| holds);
    let found = applied.and_then(|AppliedPolicy { policy, definition }| {
        let value = definition.get(ALTERNATE)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(Diagnostic {
            rule: "policy",
            severity: Severity::Error,
            subject: Subject::Policy(policy.clone()),
            message: format!("sets {ALTERNATE} to {value} on exchange {name}"),
            reason: Some(
                "the plugin sends each notice there at once, and keeps it as well".to_owned(),
            ),
            fix: Some(Fix::Policies { policy: Some(policy.clone()), operator: None }),
        })
    });
    found.into_iter().collect()
}
