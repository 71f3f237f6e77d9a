//! Bindings on the topology's exchanges and queues that the topology does not have.

use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::{Binding, shard::CONSISTENT_HASH},
    plan::{
        Change, Plan,
        generation::Resolved,
        own_queues::{Kind, role},
        snapshot::Snapshot,
    },
    text::quote,
    topology::Topology,
};

/// The type of an exchange that the federation plugin creates on the upstream broker.
const FEDERATION: &str = "x-federation-upstream";

/// Findings about foreign bindings. Any program may subscribe to `orders.events`.
pub(super) fn findings(
    topology: &Topology,
    observed: &Snapshot,
    plan: &Plan,
    resolved: &Resolved,
) -> Vec<Diagnostic> {
    let foreign = Foreign { topology, observed, plan, resolved };
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
    plan: &'a Plan,
    resolved: &'a Resolved,
}

impl Foreign<'_> {
    fn finding(&self, binding: &Binding) -> Option<Diagnostic> {
        let Binding { source, destination, to_queue, .. } = binding;
        let from_ours = self.resolved.objects.exchanges.contains_key(source);
        let to_ours = if *to_queue {
            self.role(destination).is_some()
        } else {
            self.resolved.objects.exchanges.contains_key(destination)
        };
        match (from_ours, to_ours) {
            // A mark of ownership; no message takes this binding.
            _ if *source == self.topology.mark_exchange() => None,
            _ if self.topology.is_early(binding) => Some(self.early(binding)),
            // Messages in the retired exchange, or in queues that route to it, leave through this binding.
            _ if self.is_retired(source) => None,
            // An exchange of former shards: one queue replaces the shards, or their timeout was removed.
            (true, _) if !to_queue && self.is_retired(destination) => None,
            // Consumers of the exchange that the topology took over bind their queues to this exchange.
            (true, false) if *source == self.topology.compat_due_exchange() => None,
            (true, true) if *to_queue && !self.is_current(destination) => self.replaced(binding),
            (true, true) => Some(self.additional(binding)),
            (true, false) if *source == self.topology.events_exchange() => None,
            (true, false) if *to_queue && is_probe(self.topology, self.observed, destination) => {
                None
            }
            (true, false) => Some(self.subscriber(binding)),
            (false, true) => Some(self.publisher(binding)),
            (false, false) => None,
        }
    }

    fn role(&self, queue: &str) -> Option<Kind<'_>> {
        let objects = &self.observed.objects;
        role(self.topology, objects, objects.queues.get(queue)?)
    }

    /// Whether an exchange belongs to a former strategy; the plan deletes it at the end.
    fn is_retired(&self, exchange: &str) -> bool {
        let owner = self.observed.objects.owner_of_exchange(exchange);
        owner == Some(&self.topology.name)
            && !self.resolved.objects.exchanges.contains_key(exchange)
    }

    /// Whether a queue is in use, and not a generation that drains.
    fn is_current(&self, queue: &str) -> bool {
        self.resolved.objects.queues.contains_key(queue)
    }

    /// The plan unbinds a replaced queue, unless other programs consume from it or it has no mark.
    fn replaced(&self, binding: &Binding) -> Option<Diagnostic> {
        let Binding { source, routing_key, arguments, .. } = binding;
        let mut changes = self.plan.changes();
        let is_unbound = changes.any(|it| matches!(it, Change::Unbind(it) if it == binding));
        let leads_to_another = self.resolved.objects.bindings.iter().any(|it| {
            (&it.source, &it.routing_key, &it.arguments) == (source, routing_key, arguments)
                && self.observed.objects.bindings.contains(it)
        });
        if is_unbound || !leads_to_another {
            return None;
        }
        let gets = if self.is_of_shards(source) { "its share" } else { "a copy of each message" };
        let message = format!("it is still bound to exchange {source}{}", by(binding));
        let found =
            Diagnostic::new("additional-binding", Severity::Warning, destination(binding), message);
        let why = format!("another queue takes its place, and it still gets {gets}");
        Some(found.because(why).fix(Fix::Unbind(binding.clone())))
    }

    /// An extra binding between objects of the topology.
    fn additional(&self, binding: &Binding) -> Diagnostic {
        let leads_in = |name: &str| self.is_entry(name) || self.topology.is_again(name);
        let entry = leads_in(&binding.source) && binding.source != self.topology.comes_out_at();
        let delays = if binding.to_queue {
            matches!(self.role(&binding.destination), Some(Kind::Delay(_)))
        } else {
            leads_in(&binding.destination)
        };
        let reason = match (entry, delays) {
            (true, true) => {
                "this queue holds messages of other delays, too: they come twice, or late"
            }
            (true, false) => {
                "messages come out before their delay, or where no worker expects them"
            }
            (false, true) => {
                "due messages return to their level: the broker sees a cycle and keeps them forever"
            }
            (false, false) => "it also gets messages that are not for it",
        };
        Diagnostic::new(
            "additional-binding",
            Severity::Error,
            destination(binding),
            format!("it is bound to exchange {}{}", binding.source, by(binding)),
        )
        .because(reason)
        .fix(Fix::Unbind(binding.clone()))
    }

    /// A consumer has bound its queue to the exchange that the topology took over, where it gets messages before they are due.
    fn early(&self, binding: &Binding) -> Diagnostic {
        let due = self.topology.compat_due_exchange();
        let name = quote(&binding.source);
        Diagnostic::new("early-binding", Severity::Error, destination(binding), format!("it is bound to exchange {}{}", binding.source, by(binding))).because(format!(
                "it gets messages at once, without their delay; when they are due they come to {due}"
            )).fix(Fix::Text(format!(
                "a worker moves it to {due} within seconds, if it may; or run: overdue exit-plugin {name} --bind"
            )))
    }

    /// A foreign queue or exchange gets messages from an exchange of the topology.
    fn subscriber(&self, binding: &Binding) -> Diagnostic {
        let (severity, reason) = self.taken_by_a_subscriber(&binding.source);
        let exchange = self.observed.objects.exchanges.get(&binding.destination);
        let federated = exchange.filter(|it| !binding.to_queue && it.kind == FEDERATION);
        if federated.is_some() {
            let message =
                format!("{}, of a federation, is bound{}", destination(binding), by(binding));
            let subject = Subject::Exchange(binding.source.clone());
            let fix = "on the other broker take the exchange out of the policy that sets federation-upstream or \
                       federation-upstream-set: a binding that is deleted here comes again";
            return Diagnostic::new("foreign-subscriber", Severity::Error, subject, message)
                .because(format!("another broker gets a copy; {reason}"))
                .fix(Fix::Text(fix.to_owned()));
        }
        Diagnostic::new(
            "foreign-subscriber",
            severity,
            Subject::Exchange(binding.source.clone()),
            format!("{}, not of this topology, is bound{}", destination(binding), by(binding)),
        )
        .because(reason)
        .fix(Fix::Unbind(binding.clone()))
    }

    fn taken_by_a_subscriber(&self, exchange: &str) -> (Severity, &'static str) {
        let mut queues = self.resolved.objects.queues.values();
        if exchange == self.topology.due_exchange() {
            let reason = "it also gets what is due: each level waits until it has taken its copy, and is stuck when \
                          it is full, unavailable, or routes to no queue";
            (Severity::Error, reason)
        } else if self.is_of_shards(exchange) {
            let reason = "it takes its share of what is due, and no shard gets that: the sweep closes those orders late";
            (Severity::Error, reason)
        } else if exchange == self.topology.park_exchange() {
            let reason = "it gets a copy of what is parked; when it is full, nothing can be parked";
            (Severity::Warning, reason)
        } else if exchange == self.topology.comes_out_at() {
            (Severity::Warning, "it gets a copy of each notice when its delay is over")
        } else if self.topology.is_again(exchange) {
            let reason = "it gets what workers put back, which counts as delayed then, also if its level is gone";
            (Severity::Error, reason)
        } else if queues.any(|queue| queue.dead_letter_exchange() == Some(exchange)) {
            let reason = "it also gets what comes out of the larger places: their queues wait until it has taken its \
                          copy, and are stuck when it is full, unavailable, or routes to no queue";
            (Severity::Error, reason)
        } else {
            (Severity::Warning, "it gets notices at once, without their delay")
        }
    }

    fn is_of_shards(&self, exchange: &str) -> bool {
        let exchange = self.resolved.objects.exchanges.get(exchange);
        exchange.is_some_and(|it| it.kind == CONSISTENT_HASH)
    }

    /// Whether publishers use this exchange, with this or another strategy.
    fn is_entry(&self, exchange: &str) -> bool {
        let entries = self.topology.entries();
        let of_compat = self.topology.compat.as_ref().is_some_and(|it| {
            exchange == it.exchange || exchange == self.topology.compat_in_exchange()
        });
        of_compat
            || exchange == self.topology.entry_exchange()
            || entries.iter().any(|entry| entry.exchange == exchange)
    }

    /// A foreign exchange sends messages to an object of the topology. For an entry exchange it is a note: teams migrate that way.
    fn publisher(&self, binding: &Binding) -> Diagnostic {
        let into_entry = !binding.to_queue && self.is_entry(&binding.destination);
        let (severity, reason, fix) = if into_entry {
            let reason = "its publishers use this topology, too; their routing keys have to fit";
            (Severity::Note, reason, Fix::Text("nothing, if that is meant".to_owned()))
        } else {
            let reason = "messages bypass the entry exchange, and the queue can never be retired";
            (Severity::Warning, reason, Fix::Unbind(binding.clone()))
        };
        Diagnostic::new(
            "foreign-publisher",
            severity,
            destination(binding),
            format!(
                "it is bound to exchange {}, not of this topology{}",
                binding.source,
                by(binding)
            ),
        )
        .because(reason)
        .fix(fix)
    }
}

fn destination(binding: &Binding) -> Subject {
    let name = binding.destination.clone();
    if binding.to_queue { Subject::Queue(name) } else { Subject::Exchange(name) }
}

fn by(binding: &Binding) -> String {
    match (binding.routing_key.as_str(), binding.arguments.is_empty()) {
        ("", true) => String::new(),
        ("", false) => ", by headers".to_owned(),
        (key, _) => format!(", by {key}"),
    }
}

/// Whether the queue belongs to a running probe: its name is the name of a probe's queue, and it is exclusive. A queue that was
/// declared after the listing counts as exclusive until the next reading.
fn is_probe(topology: &Topology, observed: &Snapshot, queue: &str) -> bool {
    let rest = queue.strip_prefix(&topology.name).and_then(|rest| rest.strip_prefix(".probe."));
    let exclusive = |name| observed.objects.queues.get(name).is_none_or(|queue| queue.exclusive);
    rest.is_some_and(|rest| !rest.is_empty()) && exclusive(queue)
}
