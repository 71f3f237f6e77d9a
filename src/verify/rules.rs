//! Rules about exchanges, queues and bindings taken together. Whatever a topology becomes keeps them all, which a test
//! shows for any topology; what is on a broker may not.

mod alternate;
mod at_least_once;
mod cycle;
mod examined;
mod nowhere;
mod overlap;

use examined::Examined;

use super::queues::role;
use crate::{
    diagnostic::{Diagnostic, Draft, Severity, Subject},
    objects::Objects,
    plan::{Change, Plan, generation::Resolved, snapshot::Snapshot},
    topology::Topology,
};

/// A named rule about objects.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Stays the same from version to version.
    pub name: &'static str,
    /// How bad its findings are.
    pub severity: Severity,
    run: fn(&Examined<'_>) -> Vec<Draft>,
}

const fn rule(
    severity: Severity,
    name: &'static str,
    run: fn(&Examined<'_>) -> Vec<Draft>,
) -> Rule {
    Rule { name, severity, run }
}

/// Every rule about objects, in the order in which they are reported.
pub const RULES: &[Rule] = &[
    rule(Severity::Error, "dead-letter-cycle", cycle::dead_letter),
    rule(Severity::Error, "alternate-exchange", alternate::incomplete),
    rule(Severity::Error, "routing-nowhere", nowhere::dead_letters),
    rule(Severity::Warning, "routing-overlap", overlap::several_queues),
    rule(Severity::Warning, "at-least-once", at_least_once::incomplete),
];

/// Runs every rule on the queues and exchanges of `topology` among `objects`. They see arguments, not policies.
#[must_use]
pub fn check(topology: &Topology, objects: &Objects) -> Vec<Diagnostic> {
    let examined = Examined { topology, objects };
    let run = |rule: &Rule| {
        let Rule { name, severity, run } = *rule;
        let whole = || Subject::Area("Topology");
        run(&examined).into_iter().map(move |draft| draft.complete(name, severity, whole()))
    };
    RULES.iter().flat_map(run).collect()
}

/// What these rules find beyond what is reported already: they run on the objects as they are once that is put
/// right. So what is left comes from objects that are not the topology's, or from generations that are retired.
pub(super) fn findings(
    topology: &Topology,
    observed: &Snapshot,
    plan: &Plan,
    resolved: &Resolved,
) -> Vec<Diagnostic> {
    check(topology, &put_right(topology, &observed.objects, plan, resolved))
}

/// The objects on the broker with everything that the topology wants, without bindings between its own objects that
/// it does not want, and without queues that are being replaced or deleted.
fn put_right(topology: &Topology, observed: &Objects, plan: &Plan, resolved: &Resolved) -> Objects {
    let mut objects = observed.clone();
    let ours = |name: &str, is_queue: bool| {
        if is_queue {
            observed.queues.get(name).is_some_and(|queue| role(topology, observed, queue).is_some())
        } else {
            resolved.objects.exchanges.contains_key(name)
        }
    };
    objects.bindings.retain(|binding| {
        !(ours(&binding.source, false) && ours(&binding.destination, binding.to_queue))
    });
    for replaced in resolved.replaces.values() {
        objects.queues.remove(&replaced.queue);
    }
    for step in &plan.steps {
        if let Change::DeleteQueue { queue, .. } = &step.change {
            objects.queues.remove(queue);
        }
    }
    let Objects { exchanges, queues, bindings } = resolved.objects.clone();
    objects.exchanges.extend(exchanges);
    objects.queues.extend(queues);
    objects.bindings.extend(bindings);
    objects
}
