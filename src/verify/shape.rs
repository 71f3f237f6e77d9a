//! What a plan would do, as findings: objects that are missing or have another shape.

use std::collections::BTreeSet;

use super::{Drift, Next, Severity};
use crate::{
    objects::{Binding, Queue},
    plan::{
        Change, Difference, Draining, Plan, Refusal, count_of,
        generation::{Kind, Resolved, kind},
    },
    topology::{Topology, file::QueueType},
};

pub(super) fn findings(topology: &Topology, plan: &Plan, resolved: &Resolved) -> Vec<Drift> {
    let shape = Shape { topology, plan, resolved, created: created(plan) };
    let steps = plan.steps.iter().filter_map(|step| match &step.change {
        Change::CreateExchange(exchange) => Some(shape.exchange(&exchange.name)),
        Change::CreateQueue(queue) => Some(shape.queue(queue)),
        Change::Bind(binding) => shape.binding(binding),
        Change::Unbind(binding) => shape.retired(binding, &step.reason),
        Change::DeleteQueue { queue, .. } => shape.empty(queue),
    });
    let draining = plan.draining.iter().filter_map(|queue| shape.draining(queue));
    let refusals = plan.refusals.iter().filter_map(|refusal| shape.refusal(refusal));
    steps.chain(refusals).chain(draining).collect()
}

/// Exchanges and queues that the plan creates: what belongs to them is not told again.
fn created(plan: &Plan) -> BTreeSet<&str> {
    let names = plan.steps.iter().filter_map(|step| match &step.change {
        Change::CreateExchange(exchange) => Some(exchange.name.as_str()),
        Change::CreateQueue(queue) => Some(queue.name.as_str()),
        _ => None,
    });
    names.collect()
}

struct Shape<'a> {
    topology: &'a Topology,
    plan: &'a Plan,
    resolved: &'a Resolved,
    created: BTreeSet<&'a str>,
}

impl Shape<'_> {
    fn exchange(&self, name: &str) -> Drift {
        let quorum = self.topology.queue_type == QueueType::Quorum;
        let why = if name == self.topology.entry_exchange() {
            "order services get 404 for each publish and lose their channel"
        } else if name == self.topology.due_exchange() && quorum {
            "what comes due stands still in its level until the exchange is there"
        } else if name == self.topology.due_exchange() {
            "what comes due is dropped"
        } else if name == self.topology.park_exchange() {
            "what has no route is dropped or stops its level, and the worker cannot park"
        } else {
            "events cannot be published; they wait in the outbox, and the workers begin again and again"
        };
        danger("missing-exchange", format!("exchange {name}"), "it is missing", why)
    }

    fn queue(&self, queue: &Queue) -> Drift {
        let Some(replaced) = self.resolved.replaces.get(&queue.name) else {
            let why = self.without(queue);
            return danger("missing-queue", format!("queue {}", queue.name), "it is missing", &why);
        };
        let waiting = self.plan.draining.iter().find(|draining| draining.queue == replaced.queue);
        let waiting = waiting.map_or_else(
            || "what is in this one comes".to_owned(),
            |draining| format!("{} in this one come", count_of(draining.messages)),
        );
        let why = format!(
            "the broker cannot change a queue: apply puts another one in its place, and {waiting} out by its own rules"
        );
        let object = format!("queue {}", replaced.queue);
        danger("changed-queue", object, list(&replaced.differences), &why)
    }

    /// What becomes of messages where a queue or its binding is not there.
    fn without(&self, queue: &Queue) -> String {
        match kind(self.topology, queue) {
            Some(Kind::Delay(level)) => {
                format!("notices for level {level} are parked instead of delayed")
            }
            Some(Kind::Parked) => "what is parked is lost".to_owned(),
            _ => "what comes due for it does not come to a worker".to_owned(),
        }
    }

    fn binding(&self, binding: &Binding) -> Option<Drift> {
        let Binding { source, destination, routing_key, .. } = binding;
        if self.created.contains(source.as_str()) || self.created.contains(destination.as_str()) {
            return None;
        }
        let why = self.resolved.objects.queues.get(destination).map(|queue| self.without(queue));
        let what = format!("it is not bound to exchange {source}{}", with_key(routing_key));
        let why = why.unwrap_or_default();
        Some(danger("missing-binding", format!("queue {destination}"), what, &why))
    }

    fn retired(&self, binding: &Binding, reason: &str) -> Option<Drift> {
        (!self.is_replaced(&binding.destination)).then(|| Drift {
            severity: Severity::Drift,
            rule: "retired-queue",
            object: format!("queue {}", binding.destination),
            what: format!("it is still bound to exchange {}", binding.source),
            why: reason.to_owned(),
            next: Next::Apply,
        })
    }

    /// Where it is still bound, that is told, too.
    fn empty(&self, queue: &str) -> Option<Drift> {
        (!self.is_replaced(queue)).then(|| Drift {
            severity: Severity::Note,
            rule: "retired-queue",
            object: format!("queue {queue}"),
            what: "it is retired and empty".to_owned(),
            why: "once nothing is bound to it any more it can go".to_owned(),
            next: Next::Apply,
        })
    }

    fn draining(&self, Draining { queue, messages, drains }: &Draining) -> Option<Drift> {
        (!self.is_replaced(queue)).then(|| Drift {
            severity: Severity::Note,
            rule: "draining",
            object: format!("queue {queue}"),
            what: format!("it is retired and holds {} {drains}", count_of(*messages)),
            why: "it is kept until it is empty, so that no message is lost".to_owned(),
            next: Next::Other("nothing now; overdue apply deletes it once it is empty".to_owned()),
        })
    }

    /// A queue that is being replaced is told as changed, and no more.
    fn is_replaced(&self, queue: &str) -> bool {
        self.resolved.replaces.values().any(|old| old.queue == queue)
    }

    fn refusal(&self, refusal: &Refusal) -> Option<Drift> {
        let drift = match refusal {
            Refusal::Exchange { exchange, differences } => {
                let park = self.topology.park_exchange();
                let why = if differences.iter().any(|d| d.property == "alternate-exchange") {
                    format!(
                        "without {park} as its alternate exchange, messages without a route are lost or, once there \
                         are 32 of them, stop their level"
                    )
                } else {
                    "messages are not routed as the topology says".to_owned()
                };
                let next = "RabbitMQ cannot change an exchange: stop the publishers, delete it, and run overdue apply";
                Drift {
                    next: Next::Other(next.to_owned()),
                    ..danger(
                        "changed-exchange",
                        format!("exchange {exchange}"),
                        list(differences),
                        &why,
                    )
                }
            }
            // Of the command line, not of the broker.
            Refusal::Kept { .. } => return None,
            Refusal::Occupied { queue, messages } => Drift {
                severity: Severity::Drift,
                rule: "occupied-queue",
                object: format!("queue {queue}"),
                what: format!("it is no longer in the topology and holds {}", count_of(*messages)),
                why: "no worker with this topology takes them".to_owned(),
                next: Next::Other(format!(
                    "let a worker with the old topology finish them, or lose them: overdue apply --discard {queue}"
                )),
            },
        };
        Some(drift)
    }
}

/// A danger that `overdue apply` mends.
fn danger(rule: &'static str, object: String, what: impl Into<String>, why: &str) -> Drift {
    let (what, why) = (what.into(), why.to_owned());
    Drift { severity: Severity::Danger, rule, object, what, why, next: Next::Apply }
}

fn list(differences: &[Difference]) -> String {
    differences.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

fn with_key(key: &str) -> String {
    if key.is_empty() { String::new() } else { format!(" by {key}") }
}
