//! Bindings that the topology does not have, on its exchanges and queues.

use super::{Drift, Next, Severity, is_current, is_probe, role};
use crate::{
    objects::Binding,
    plan::{generation::Resolved, snapshot::Snapshot},
    topology::Topology,
};

/// Anybody may subscribe to `orders.events`; every other binding has to be one of ours.
pub(super) fn findings(
    topology: &Topology,
    observed: &Snapshot,
    resolved: &Resolved,
) -> Vec<Drift> {
    let foreign = Foreign { topology, observed, resolved };
    let bindings = observed.objects.bindings.iter();
    bindings
        .filter(|binding| {
            !binding.source.is_empty() && !resolved.objects.bindings.contains(binding)
        })
        .filter_map(|binding| foreign.finding(binding))
        .collect()
}

struct Foreign<'a> {
    topology: &'a Topology,
    observed: &'a Snapshot,
    resolved: &'a Resolved,
}

impl Foreign<'_> {
    fn finding(&self, binding: &Binding) -> Option<Drift> {
        let Binding { source, destination, to_queue, .. } = binding;
        let from_ours = *source != self.topology.events_exchange()
            && self.resolved.objects.exchanges.contains_key(source);
        let to_ours = if *to_queue {
            let queue = self.observed.objects.queues.get(destination);
            queue.is_some_and(|queue| role(self.topology, queue).is_some())
        } else {
            self.resolved.objects.exchanges.contains_key(destination)
        };
        match (from_ours, to_ours) {
            // A generation that drains: the plan unbinds it.
            (true, true) if *to_queue && !is_current(self.resolved, destination) => None,
            (true, true) => Some(self.additional(binding)),
            (true, false) if *to_queue && is_probe(self.topology, destination) => None,
            (true, false) => Some(self.subscriber(binding)),
            (false, true) => Some(self.publisher(binding)),
            (false, false) => None,
        }
    }

    /// Both ends are ours, the binding is not.
    fn additional(&self, binding: &Binding) -> Drift {
        let entry = binding.source == self.topology.entry_exchange();
        let delay = binding.destination.starts_with(&format!("{}.delay.", self.topology.name));
        let why = match (entry, delay) {
            (true, true) => {
                "messages of other levels are held by this one, too: they come twice, or late"
            }
            (true, false) => "messages come out before their delay, or where nobody waits for them",
            (false, true) => {
                "what is due goes back into a level: the broker sees a cycle and keeps it for ever"
            }
            (false, false) => "messages of other timeouts come here, too",
        };
        Drift {
            severity: Severity::Danger,
            rule: "additional-binding",
            object: destination(binding),
            what: format!("it is bound to exchange {}{}", binding.source, by(binding)),
            why: why.to_owned(),
            next: Next::Unbind(binding.clone()),
        }
    }

    /// Somebody else takes messages from an exchange of ours.
    fn subscriber(&self, binding: &Binding) -> Drift {
        let (severity, why) = if binding.source == self.topology.due_exchange() {
            let why = "it gets what is due, too; every level waits until it has taken its copy, and stands still \
                       when it is full or gone astray";
            (Severity::Danger, why)
        } else if binding.source == self.topology.entry_exchange() {
            (Severity::Drift, "it gets notices at once, without their delay")
        } else {
            (
                Severity::Drift,
                "it gets a copy of what is parked; full, it stops what is to be parked",
            )
        };
        Drift {
            severity,
            rule: "foreign-subscriber",
            object: format!("exchange {}", binding.source),
            what: format!(
                "{}, not of this topology, is bound{}",
                destination(binding),
                by(binding)
            ),
            why: why.to_owned(),
            next: Next::Unbind(binding.clone()),
        }
    }

    /// Somebody else's exchange brings messages in. Into the entry it is how one migrates.
    fn publisher(&self, binding: &Binding) -> Drift {
        let entry = self.topology.entry_exchange();
        let into_entry = binding.destination == entry && !binding.to_queue;
        let (severity, why, next) = if into_entry {
            let why = "its publishers use this topology, too; their routing keys have to fit";
            (Severity::Note, why, Next::Other("nothing, if that is meant".to_owned()))
        } else {
            let why =
                "messages come in past the entry exchange, and keep the queue from being retired";
            (Severity::Drift, why, Next::Unbind(binding.clone()))
        };
        Drift {
            severity,
            rule: "foreign-publisher",
            object: destination(binding),
            what: format!(
                "it is bound to exchange {}, not of this topology{}",
                binding.source,
                by(binding)
            ),
            why: why.to_owned(),
            next,
        }
    }
}

fn destination(binding: &Binding) -> String {
    let kind = if binding.to_queue { "queue" } else { "exchange" };
    format!("{kind} {}", binding.destination)
}

fn by(binding: &Binding) -> String {
    match (binding.routing_key.as_str(), binding.arguments.is_empty()) {
        ("", true) => String::new(),
        ("", false) => ", by headers".to_owned(),
        (key, _) => format!(", by {key}"),
    }
}
