//! What a plan would do, as findings: objects that are missing or have another shape.

mod compat;

use std::collections::BTreeSet;

use super::dead_letters::SLOTS;
use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::{Binding, DELAYED_MESSAGE, Queue},
    plan::{
        Change, Difference, Draining, Note, Plan, Refusal, count_of,
        generation::Resolved,
        own_queues::{Hold, Kind, kind},
    },
    text::counted,
    topology::{Topology, file::QueueType, strategy::Strategy},
};

pub(super) fn findings(topology: &Topology, plan: &Plan, resolved: &Resolved) -> Vec<Diagnostic> {
    let shape = Shape { topology, plan, resolved, created: created(plan) };
    let steps = plan.steps.iter().filter_map(|step| match &step.change {
        // The marks are reported by their queues.
        Change::CreateExchange(exchange) if exchange.name == topology.mark_exchange() => None,
        Change::CreateExchange(exchange) => Some(shape.exchange(&exchange.name)),
        Change::CreateQueue(queue) => Some(shape.queue(queue)),
        Change::Bind(binding) => shape.binding(binding),
        Change::Leave(mark) => Some(leaving(&mark.destination, &step.reason.to_string())),
        Change::Unbind(binding) if binding.mark_of().is_some() => {
            Some(leaving(&binding.destination, &step.reason.to_string()))
        }
        Change::Unbind(binding) => shape.retired(binding, &step.reason.to_string()),
        Change::DeleteQueue { queue, .. } => shape.empty(queue),
        Change::DeleteExchange { exchange } => Some(retired_exchange(
            exchange,
            "it delayed with another strategy, and nothing comes to it any more",
        )),
    });
    let exchanges = plan
        .retired_exchanges
        .iter()
        .map(|it| retired_exchange(&it.exchange, &it.needed.to_string()));
    let draining = plan.draining.iter().filter_map(|queue| shape.draining(queue));
    let refusals = plan.refusals.iter().filter_map(|refusal| shape.refusal(refusal));
    // A queue that is being replaced is reported as changed, and no more.
    let replaced =
        |it: &&Note| matches!(it, Note::Unmarked { queue, .. } if shape.is_replaced(queue));
    let notes = plan.notes.iter().filter(|note| !replaced(note)).map(note);
    steps.chain(refusals).chain(draining).chain(exchanges).chain(notes).collect()
}

/// Exchanges and queues that the plan creates: what belongs to them is not reported again.
fn created(plan: &Plan) -> BTreeSet<&str> {
    let names = plan.steps.iter().filter_map(|step| match &step.change {
        Change::CreateExchange(exchange) => Some(exchange.name.as_str()),
        Change::CreateQueue(queue) => Some(queue.name.as_str()),
        _ => None,
    });
    names.collect()
}

fn note(note: &Note) -> Diagnostic {
    let (rule, subject, message, reason) = match note {
        Note::Unmarked { queue, exchange, mark } => (
            "unmarked-queue",
            on(queue),
            "it has the name of a queue of this topology and not its mark: it is left alone"
                .to_owned(),
            format!(
                "nothing says that overdue made it; one that it made is bound to {exchange} by {mark}"
            ),
        ),
        Note::Consumed { queue, consumers } => (
            "foreign-consumer",
            on(queue),
            format!("it is retired, and {} of somebody else", counted(*consumers, "consumer")),
            "what somebody reads is not taken out of use".to_owned(),
        ),
        Note::Unused { topology, queues, messages } => (
            "unused-topology",
            Subject::Area("Topology"),
            format!("{topology} has {} here that nobody consumes", counted(*queues, "queue")),
            format!("{} in them", counted(*messages, "message")),
        ),
    };
    let (severity, fix) = (Severity::Note, Some(Fix::Text("nothing, if that is meant".to_owned())));
    Diagnostic { rule, severity, subject, message, reason: Some(reason), fix }
}

/// The mark of what leaves is missing, or has to go.
fn leaving(queue: &str, reason: &str) -> Diagnostic {
    Diagnostic {
        rule: "retired-queue",
        severity: Severity::Note,
        subject: on(queue),
        message: "it is not marked as the topology says".to_owned(),
        reason: Some(reason.to_owned()),
        fix: Some(Fix::Apply),
    }
}

fn unmarked_exchange(name: &str) -> Diagnostic {
    Diagnostic {
        rule: "unmarked-exchange",
        severity: Severity::Note,
        subject: exchange(name),
        message: "it is not marked as an exchange of this topology".to_owned(),
        reason: Some("an exchange without a mark is not retired later".to_owned()),
        fix: Some(Fix::Apply),
    }
}

fn retired_exchange(name: &str, reason: &str) -> Diagnostic {
    Diagnostic {
        rule: "retired-exchange",
        severity: Severity::Note,
        subject: exchange(name),
        message: "it is no longer in the topology".to_owned(),
        reason: Some(reason.to_owned()),
        fix: Some(Fix::Apply),
    }
}

struct Shape<'a> {
    topology: &'a Topology,
    plan: &'a Plan,
    resolved: &'a Resolved,
    created: BTreeSet<&'a str>,
}

impl Shape<'_> {
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
            "what comes due is stuck in its level until the exchange is there"
        } else if name == self.topology.due_exchange() {
            "what comes due is dropped"
        } else if name == self.topology.park_exchange() {
            "what has no route is dropped or stops its level, and the worker cannot park"
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

    /// What becomes of messages where a queue or its binding is not there.
    fn without(&self, queue: &Queue) -> String {
        if let Some(why) = self.without_compat(&queue.name) {
            return why.to_owned();
        }
        match kind(self.topology, &self.resolved.objects, queue) {
            Some(Kind::Delay(Hold::Level(level))) => {
                format!("notices for level {level} are parked instead of delayed")
            }
            Some(Kind::Delay(Hold::Digit(_))) => {
                "notices whose delay has this digit are parked instead of delayed".to_owned()
            }
            Some(Kind::Parked) => "what is parked is lost".to_owned(),
            _ if self.topology.strategy == Strategy::DelayedExchange => {
                "what comes due for it is lost: the exchange of the plugin can have no alternate exchange".to_owned()
            }
            _ => "what comes due for it does not come to a worker".to_owned(),
        }
    }

    fn binding(&self, binding: &Binding) -> Option<Diagnostic> {
        let Binding { source, destination, routing_key, .. } = binding;
        if binding.mark_of().is_some() {
            return if binding.to_queue {
                self.unmarked(destination)
            } else {
                Some(unmarked_exchange(destination))
            };
        }
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
        if let Some(why) = self.compat_way_back(binding) {
            return Some(error("missing-binding", on(destination), what, why));
        }
        let why = self.resolved.objects.queues.get(destination).map(|queue| self.without(queue));
        // What comes due at another place has its own way.
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

    /// Where another reason is given to apply, that adopts it as well.
    fn unmarked(&self, queue: &str) -> Option<Diagnostic> {
        (!self.is_replaced(queue)).then(|| Diagnostic {
            rule: "unmarked-queue",
            severity: Severity::Note,
            subject: on(queue),
            message: "it is not marked as a queue of this topology".to_owned(),
            reason: Some("a queue without a mark is not retired later".to_owned()),
            fix: Some(Fix::Apply),
        })
    }

    fn retired(&self, binding: &Binding, reason: &str) -> Option<Diagnostic> {
        (!self.is_replaced(&binding.destination)).then(|| Diagnostic {
            rule: "retired-queue",
            severity: Severity::Warning,
            subject: if binding.to_queue {
                on(&binding.destination)
            } else {
                exchange(&binding.destination)
            },
            message: format!("it is still bound to exchange {}", binding.source),
            reason: Some(reason.to_owned()),
            fix: Some(Fix::Apply),
        })
    }

    /// Where it is still bound, that is what is reported.
    fn empty(&self, queue: &str) -> Option<Diagnostic> {
        let bound = self.plan.steps.iter().any(
            |step| matches!(&step.change, Change::Unbind(binding) if binding.destination == queue),
        );
        (!bound && !self.is_replaced(queue)).then(|| Diagnostic {
            rule: "retired-queue",
            severity: Severity::Note,
            subject: on(queue),
            message: "it is retired and empty".to_owned(),
            reason: Some("nothing is bound to it, so it can be deleted".to_owned()),
            fix: Some(Fix::Apply),
        })
    }

    fn draining(&self, Draining { queue, messages, drains }: &Draining) -> Option<Diagnostic> {
        (!self.is_replaced(queue)).then(|| Diagnostic {
            rule: "draining",
            severity: Severity::Note,
            subject: on(queue),
            message: format!("it is retired and holds {} {drains}", count_of(*messages)),
            reason: Some("it is kept until it is empty, so that no message is lost".to_owned()),
            fix: Some(Fix::Text(
                "nothing now; overdue apply deletes it once it is empty".to_owned(),
            )),
        })
    }

    /// A queue that is being replaced is reported as changed, and no more.
    fn is_replaced(&self, queue: &str) -> bool {
        self.resolved.replaces.values().any(|old| old.queue == queue)
    }

    fn refusal(&self, refusal: &Refusal) -> Option<Diagnostic> {
        match refusal {
            Refusal::Exchange { exchange: name, differences } => {
                Some(self.changed_exchange(name, differences))
            }
            // Of the command line, not of the broker.
            Refusal::Kept { .. } => None,
            Refusal::Occupied { queue, messages } => Some(Diagnostic {
                rule: "occupied-queue",
                severity: Severity::Warning,
                subject: on(queue),
                message: format!(
                    "it is no longer in the topology and holds {}",
                    count_of(*messages)
                ),
                reason: Some("no worker with this topology takes them".to_owned()),
                fix: Some(Fix::Text(format!(
                    "let a worker with the old topology finish them, or lose them: overdue apply --discard {queue}"
                ))),
            }),
        }
    }

    fn changed_exchange(&self, name: &str, differences: &[Difference]) -> Diagnostic {
        let park = self.topology.park_exchange();
        let desired = self.resolved.objects.exchanges.get(name);
        let reason = if desired.is_some_and(|it| it.kind == DELAYED_MESSAGE)
            && differences.iter().any(|it| it.property == "alternate-exchange")
        {
            "the plugin sends each notice to the alternate exchange at once".to_owned()
        } else if differences.iter().any(|d| d.property == "alternate-exchange") {
            format!(
                "without {park} as its alternate exchange, messages without a route are lost or, once there are \
                 {SLOTS} of them, block their level"
            )
        } else {
            "messages are not routed as the topology says".to_owned()
        };
        let fix = "RabbitMQ cannot change an exchange: stop the publishers, delete it, and run overdue apply";
        Diagnostic {
            fix: Some(Fix::Text(fix.to_owned())),
            ..error("changed-exchange", exchange(name), list(differences), &reason)
        }
    }
}

/// An error that `overdue apply` fixes.
fn error(
    rule: &'static str,
    subject: Subject,
    message: impl Into<String>,
    reason: &str,
) -> Diagnostic {
    Diagnostic {
        rule,
        severity: Severity::Error,
        subject,
        message: message.into(),
        reason: Some(reason.to_owned()),
        fix: Some(Fix::Apply),
    }
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
