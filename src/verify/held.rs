//! What nobody can look into: messages that an exchange of the delayed message plugin holds.

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    plan::{count_of, snapshot::Snapshot},
    topology::{Topology, strategy::Strategy},
};

/// How many there are, where that is known, and what that is worth.
pub(super) fn findings(topology: &Topology, observed: &Snapshot) -> Option<Diagnostic> {
    let name = topology.delayed_exchange();
    let there = observed.objects.exchanges.contains_key(&name);
    let message = match observed.delayed.get(&name) {
        Some(held) => format!("it holds {}", count_of(Some(*held))),
        None => "how many messages it holds is not known: each node counts its own".to_owned(),
    };
    (there && topology.strategy == Strategy::DelayedExchange).then(|| Diagnostic {
        rule: "held-in-memory",
        severity: Severity::Note,
        subject: Subject::Exchange(name),
        message,
        reason: Some(
            "they are in memory of one node, in one copy, and cannot be listed: where that node is lost, only the \
             sweep finds their orders"
                .to_owned(),
        ),
        fix: Some(Fix::Text(
            "nothing, if that is meant; a ladder keeps messages in queues (docs/topology.md)".to_owned(),
        )),
    })
}
