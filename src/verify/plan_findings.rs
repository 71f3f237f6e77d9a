//! The changes of a plan as findings: missing or different objects.

use std::collections::BTreeSet;

use super::policies::SAYS_NOTHING;
use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::{Binding, DELAYED_MESSAGE, Queue},
    plan::{
        Change, Difference, DrainStatus, Draining, Note, Plan, Reason, Refusal, Step, count_of,
        generation::{Resolved, number_of},
        own_queues::{DelayQueueKind, Kind, kind},
        snapshot::SLOTS,
    },
    text::counted,
    topology::{Topology, file::QueueType, strategy::Strategy},
};

/// The effect of a missing exchange for republished notices, or of a missing binding of it.
const NO_WAY_BACK: &str = "workers cannot delay early messages and retries there";

/// Findings about the changes of a plan, one per task of the administrator, with the worst effect on messages until the apply.
pub(super) fn findings(topology: &Topology, plan: &Plan, resolved: &Resolved) -> Vec<Diagnostic> {
    let shape = Shape { topology, plan, resolved, created: created(plan) };
    // A queue that is being replaced is reported only as changed.
    let steps = plan.steps.iter().filter(|step| !shape.is_replaced(step.change.queue()));
    let steps = steps.filter_map(|step| shape.step(step));
    let refusals = plan.refusals.iter().filter_map(|refusal| shape.refusal(refusal));
    let draining = plan.draining.iter().filter(|it| !shape.is_replaced(&it.queue)).map(draining);
    let exchanges = plan.retired_exchanges.iter();
    let exchanges = exchanges.map(|it| retired_exchange(&it.exchange, &it.needed.to_string()));
    let replaced =
        |it: &&Note| matches!(it, Note::Unmarked { queue, .. } if shape.is_replaced(queue));
    let notes = plan.notes.iter().filter(|note| !replaced(note)).filter_map(note);
    steps.chain(refusals).chain(draining).chain(exchanges).chain(notes).collect()
}

/// Exchanges and queues that the plan creates; their bindings are not reported again.
fn created(plan: &Plan) -> BTreeSet<&str> {
    let names = plan.changes().filter_map(|change| match change {
        Change::CreateExchange(exchange) => Some(exchange.name.as_str()),
        Change::CreateQueue(queue) => Some(queue.name.as_str()),
        _ => None,
    });
    names.collect()
}

fn note(note: &Note) -> Option<Diagnostic> {
    let note_on = |rule, subject, message: String, reason: String| {
        let fix = Fix::Text("nothing, if that is meant".to_owned());
        Diagnostic::new(rule, Severity::Note, subject, message).because(reason).fix(fix)
    };
    Some(match note {
        Note::Unmarked { queue, exchange, mark } => note_on(
            "unmarked-queue",
            on(queue),
            "it has the name of a queue of this topology and not its mark: it is left alone"
                .to_owned(),
            format!(
                "nothing says that overdue made it; one that it made is bound to {exchange} by {mark}"
            ),
        ),
        // The module `policies` reports policies.
        Note::Policy { .. } => return None,
        Note::Consumed { queue, consumers } => note_on(
            "foreign-consumer",
            on(queue),
            format!(
                "it is to be retired, and has {} of another client",
                counted(*consumers, "consumer")
            ),
            "what somebody reads is not taken out of use".to_owned(),
        ),
        Note::Unused { topology, queues, messages } => note_on(
            "unused-topology",
            Subject::Area("Topology"),
            format!("{topology} has {} here that nobody consumes", counted(*queues, "queue")),
            format!("{} in them", counted(*messages, "message")),
        ),
    })
}

fn draining(Draining { queue, messages, drains }: &Draining) -> Diagnostic {
    let message = format!("it is retired and holds {} {drains}", count_of(*messages));
    let severity = match drains {
        DrainStatus::Unconsumed { .. } => Severity::Warning,
        _ => Severity::Note,
    };
    Diagnostic::new("draining", severity, on(queue), message)
        .because("it is kept until it is empty, so that no message is lost")
        .fix(Fix::Text("nothing now; overdue apply deletes it once it is empty".to_owned()))
}

fn retired_exchange(name: &str, reason: &str) -> Diagnostic {
    apply_note("retired-exchange", exchange(name), "it is no longer in the topology", reason)
}

struct Shape<'a> {
    topology: &'a Topology,
    plan: &'a Plan,
    resolved: &'a Resolved,
    created: BTreeSet<&'a str>,
}

impl Shape<'_> {
    fn step(&self, Step { change, reason }: &Step) -> Option<Diagnostic> {
        let leaving = |mark: &Binding| {
            let message = "it is not marked as the topology says";
            apply_note("retired-queue", on(&mark.destination), message, &reason.to_string())
        };
        Some(match change {
            // The findings of the queues report the marks.
            Change::CreateExchange(it) if it.name == self.topology.mark_exchange() => return None,
            Change::CreateExchange(exchange) => self.exchange(&exchange.name),
            Change::CreateQueue(queue) => self.queue(queue),
            Change::Bind(mark) if mark.mark_of().is_some() => unmarked(mark),
            Change::Bind(binding) => return self.binding(binding),
            Change::Leave(mark) => leaving(mark),
            Change::Unbind(mark) if mark.mark_of().is_some() => leaving(mark),
            Change::Unbind(binding) => retired(binding, reason),
            // The finding of its binding reports the queue.
            Change::DeleteQueue { queue, .. } if self.is_unbound(queue) => return None,
            Change::DeleteQueue { queue, .. } => apply_note(
                "retired-queue",
                on(queue),
                "it is retired and empty",
                "nothing is bound to it, so it can be deleted",
            ),
            Change::DeleteExchange { exchange } => retired_exchange(
                exchange,
                "it delayed with another strategy, and nothing comes to it any more",
            ),
        })
    }

    /// Whether the plan removes a binding of the queue.
    fn is_unbound(&self, queue: &str) -> bool {
        let mut changes = self.plan.changes();
        changes.any(|it| matches!(it, Change::Unbind(binding) if binding.destination == queue))
    }

    fn exchange(&self, name: &str) -> Diagnostic {
        let quorum = self.topology.queue_type == QueueType::Quorum;
        let entry = self.topology.entries().iter().any(|entry| entry.exchange == name);
        let mut queues = self.resolved.objects.queues.values();
        let leads_there = queues.any(|queue| queue.dead_letter_exchange() == Some(name));
        let why = if entry && leads_there && quorum {
            "order services get 404 for delays that begin there and lose their channel, and what comes out of the larger \
             places is stuck there until the exchange is there, or parked"
        } else if entry && leads_there {
            "order services get 404 for delays that begin there and lose their channel, and what comes out of the larger \
             places is dropped or parked"
        } else if entry {
            "order services get 404 for each publish and lose their channel"
        } else if name == self.topology.entry_exchange() {
            "order services with an earlier topology get 404 for each publish and lose their channel"
        } else if name == self.topology.due_exchange() && quorum {
            "due messages stay in their level until the exchange exists"
        } else if name == self.topology.due_exchange() {
            "due messages are dropped"
        } else if name == self.topology.park_exchange() {
            "what has no route is dropped or stops its level, and the worker cannot park"
        } else if self.topology.is_again(name) {
            NO_WAY_BACK
        } else {
            self.compat_exchange(name).unwrap_or(
                "events cannot be published; they wait in the outbox, and the workers restart again and again",
            )
        };
        error("missing-exchange", exchange(name), "it is missing", why)
    }

    fn queue(&self, queue: &Queue) -> Diagnostic {
        let Some(replaced) = self.resolved.replaces.get(&queue.name) else {
            let why = self.without(queue);
            return error("missing-queue", on(&queue.name), "it is missing", &why);
        };
        let waiting = self.plan.draining.iter().find(|draining| draining.queue == replaced.queue);
        let waiting = waiting.map_or_else(
            || "what is in this one comes".to_owned(),
            |draining| format!("{} in this one come", count_of(draining.messages)),
        );
        let why = format!(
            "the broker cannot change a queue: apply puts another one in its place, and {waiting} out by its own rules"
        );
        error("changed-queue", on(&replaced.queue), list(&replaced.differences), &why)
    }

    /// The effect on messages if a queue or its binding is missing.
    fn without(&self, queue: &Queue) -> String {
        if let Some(why) = self.without_compat(&queue.name) {
            return why.to_owned();
        }
        match kind(self.topology, &self.resolved.objects, queue) {
            Some(Kind::Delay(DelayQueueKind::Level(level))) => {
                format!("notices for level {level} are parked instead of delayed")
            }
            Some(Kind::Delay(DelayQueueKind::Digit(_))) => {
                "notices whose delay has this digit are parked instead of delayed".to_owned()
            }
            Some(Kind::Parked) => "parked messages are lost".to_owned(),
            _ if self.topology.strategy == Strategy::DelayedExchange => {
                "its due messages are lost: the exchange of the plugin can have no alternate exchange".to_owned()
            }
            _ => "its due messages do not reach a worker".to_owned(),
        }
    }

    fn binding(&self, binding: &Binding) -> Option<Diagnostic> {
        let Binding { source, destination, routing_key, .. } = binding;
        if self.created.contains(source.as_str()) || self.created.contains(destination.as_str()) {
            return None;
        }
        let what = format!("it is not bound to exchange {source}{}", with_key(routing_key));
        if !binding.to_queue {
            let taken_over = self.topology.compat.as_ref().is_some_and(|it| it.exchange == *source);
            let why = if taken_over {
                "it gets everything by the alternate exchange only, as long as nobody else is bound there"
            } else {
                "notices with a 0 for that place are parked instead of going on"
            };
            return Some(error("missing-binding", exchange(destination), what, why));
        }
        let back = self.topology.is_again(source).then_some(NO_WAY_BACK);
        if let Some(why) = back.or_else(|| self.compat_way_back(binding)) {
            return Some(error("missing-binding", on(destination), what, why));
        }
        let why = self.resolved.objects.queues.get(destination).map(|queue| self.without(queue));
        // Messages that become due at another exchange have their own route.
        let why = match why {
            Some(_) if *source != self.topology.comes_out_at() && self.is_business(destination) => {
                "what comes due with another strategy does not come to a worker".to_owned()
            }
            why => why.unwrap_or_default(),
        };
        Some(error("missing-binding", on(destination), what, &why))
    }

    fn is_business(&self, queue: &str) -> bool {
        let queue = self.resolved.objects.queues.get(queue);
        let kind = queue.and_then(|queue| kind(self.topology, &self.resolved.objects, queue));
        kind == Some(Kind::Business)
    }

    fn is_replaced(&self, queue: &str) -> bool {
        self.resolved.replaces.values().any(|old| old.queue == queue)
    }

    fn refusal(&self, refusal: &Refusal) -> Option<Diagnostic> {
        match refusal {
            Refusal::Exchange { exchange: name, differences, may_hold } => {
                let fix = if *may_hold { Fix::LeavePlugin } else { Fix::Replace };
                Some(self.changed_exchange(name, differences).fix(fix(name.clone())))
            }
            // These refusals are about the command line, not about the broker.
            _ => None,
        }
    }

    fn changed_exchange(&self, name: &str, differences: &[Difference]) -> Diagnostic {
        let park = self.topology.park_exchange();
        let desired = self.resolved.objects.exchanges.get(name);
        let alternate = differences.iter().any(|it| it.property == "alternate-exchange");
        let reason = if alternate && desired.is_some_and(|it| it.kind == DELAYED_MESSAGE) {
            "the plugin sends each notice to the alternate exchange at once".to_owned()
        } else if alternate && self.topology.is_again(name) {
            SAYS_NOTHING.to_owned()
        } else if alternate {
            format!(
                "without {park} as its alternate exchange, messages without a route are lost or, once there are \
                 {SLOTS} of them, block their level"
            )
        } else {
            "messages are not routed as the topology says".to_owned()
        };
        error("changed-exchange", exchange(name), list(differences), &reason)
    }

    /// The effect on messages if an exchange of `[compat.x-delay]` is missing.
    fn compat_exchange(&self, name: &str) -> Option<&'static str> {
        let compat = self.topology.compat.as_ref()?;
        let old_name = name == compat.exchange;
        if old_name || name == self.topology.compat_in_exchange() {
            return Some(if old_name {
                "programs that were written for the plugin get 404 for each publish and lose their channel"
            } else {
                "what is published to the old name is dropped"
            });
        }
        if name == self.topology.compat_rest_exchange() {
            return Some("what has an `x-delay` that is not a level is dropped");
        }
        let due = name == self.topology.compat_due_exchange();
        due.then_some("what comes due there is stuck in its level, or waits for the worker")
    }

    /// The effect on messages if a queue of `[compat.x-delay]` is missing.
    fn without_compat(&self, queue: &str) -> Option<&'static str> {
        self.topology.compat.as_ref()?;
        if number_of(&self.topology.compat_queue(), queue).is_some() {
            return Some("what has an `x-delay` that is not a level is parked");
        }
        let delays = |level| number_of(&self.topology.compat_delay_queue(level), queue).is_some();
        let level = self.topology.compat_levels().any(delays);
        level.then_some("what has this `x-delay` goes through a worker")
    }

    /// Messages of `[compat.x-delay]` return to the compat queue when levels or the ladder expire them.
    fn compat_way_back(&self, binding: &Binding) -> Option<&'static str> {
        self.topology.compat.as_ref()?;
        let to_it = number_of(&self.topology.compat_queue(), &binding.destination).is_some();
        let back = to_it && binding.source == self.topology.due_exchange();
        let rest = to_it && binding.source == self.topology.compat_rest_exchange();
        match (back, rest) {
            (true, _) => Some(
                "what waits in the levels or the ladder with an `x-delay` is parked when it comes out",
            ),
            (_, true) => Some("what has an `x-delay` that is not a level is parked"),
            _ => None,
        }
    }
}

/// A note on an object that the plan will mark.
fn unmarked(mark: &Binding) -> Diagnostic {
    let (what, rule, subject) = if mark.to_queue {
        ("a queue", "unmarked-queue", on(&mark.destination))
    } else {
        ("an exchange", "unmarked-exchange", exchange(&mark.destination))
    };
    let message = format!("it is not marked as {what} of this topology");
    apply_note(rule, subject, message, &format!("{what} without a mark is not retired later"))
}

fn retired(binding: &Binding, reason: &Reason) -> Diagnostic {
    let name = &binding.destination;
    let subject = if binding.to_queue { on(name) } else { exchange(name) };
    let message = format!("it is still bound to exchange {}", binding.source);
    let severity = match reason {
        // The plan unbinds queues of a ladder or timeout one after the other, while messages leave them.
        Reason::LadderRemoved { .. } | Reason::TimeoutRemoved { .. } => Severity::Note,
        _ => Severity::Warning,
    };
    Diagnostic::new("retired-queue", severity, subject, message)
        .because(reason.to_string())
        .fix(Fix::Apply)
}

/// An error that `overdue apply` fixes.
fn error(
    rule: &'static str,
    subject: Subject,
    message: impl Into<String>,
    reason: &str,
) -> Diagnostic {
    Diagnostic::new(rule, Severity::Error, subject, message).because(reason).fix(Fix::Apply)
}

/// A note that `overdue apply` fixes; it does no harm until then.
fn apply_note(
    rule: &'static str,
    subject: Subject,
    message: impl Into<String>,
    reason: &str,
) -> Diagnostic {
    Diagnostic::new(rule, Severity::Note, subject, message).because(reason).fix(Fix::Apply)
}

fn exchange(name: &str) -> Subject {
    Subject::Exchange(name.to_owned())
}

fn on(queue: &str) -> Subject {
    Subject::Queue(queue.to_owned())
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn with_key(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!(" by {key}") }
}
