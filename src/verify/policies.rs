//! Policies that override or limit what the topology gave its queues and exchanges.

use std::collections::BTreeMap;

use super::effective_settings::Effective;
use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::{DELAYED_MESSAGE, Queue},
    plan::{
        own_queues::{Kind, role},
        snapshot::{AppliedPolicy, QueueStats, Snapshot},
    },
    text::noun,
    topology::Topology,
};

/// Policy keys that change nothing about a queue of ours: its argument wins, or they are about where it lives.
const HARMLESS: [&str; 11] = [
    "consumer-disconnected-timeout",
    "dead-letter-strategy",
    "initial-cluster-size",
    "max-age",
    "max-in-memory-bytes",
    "max-in-memory-length",
    "queue-leader-locator",
    "queue-master-locator",
    "queue-mode",
    "queue-version",
    "target-group-size",
];

/// Looked at together with `delayed-retry-type`.
const RETRY_BOUNDS: [&str; 2] = ["delayed-retry-min", "delayed-retry-max"];

/// One finding per setting and effect, with all the queues it is about: a catch-all policy hits every one.
pub(super) fn findings(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> Vec<Diagnostic> {
    let mut hits: BTreeMap<Hit<'_>, Vec<&str>> = BTreeMap::new();
    for queue in observed.objects.queues.values() {
        let (Some(role), Some(stats)) =
            (role(topology, &observed.objects, queue), stats.get(&queue.name))
        else {
            continue;
        };
        for hit in hits_of(queue, role, stats) {
            hits.entry(hit).or_default().push(&queue.name);
        }
    }
    hits.into_iter().map(|(hit, queues)| hit.finding(&queues)).collect()
}

/// What a policy does to a queue; the order is that of the report.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Hit<'a> {
    policy: Option<&'a str>,
    operator: Option<&'a str>,
    key: &'a str,
    value: String,
    effect: Effect,
}

fn hits_of<'a>(
    queue: &'a Queue,
    role: Kind<'a>,
    stats: &'a QueueStats,
) -> impl Iterator<Item = Hit<'a>> {
    let applied = InEffect { effective: Effective { queue, stats: Some(stats) }, role };
    stats.effective_policy_definition.iter().filter_map(move |(key, value)| {
        Some(Hit {
            policy: stats.policy.as_deref(),
            operator: stats.operator_policy.as_deref(),
            key,
            value: value.as_str().map_or_else(|| value.to_string(), str::to_owned),
            effect: applied.effect(key)?,
        })
    })
}

impl Hit<'_> {
    fn finding(self, queues: &[&str]) -> Diagnostic {
        let named = |name: Option<&str>| name.unwrap_or_default().to_owned();
        let subject = match self.policy {
            Some(policy) => Subject::Policy(policy.to_owned()),
            None => Subject::OperatorPolicy(named(self.operator)),
        };
        let with = self.operator.filter(|_| self.policy.is_some());
        let with = with.map(|name| format!("with operator policy {name}, it ")).unwrap_or_default();
        let noun = noun(queues.len(), "queue");
        let Effect { severity, reason } = self.effect;
        Diagnostic::new(
            "policy",
            severity,
            subject,
            format!("{with}sets {} to {} on {noun} {}", self.key, self.value, queues.join(", ")),
        )
        .because(reason)
        .fix(Fix::Policies {
            policy: self.policy.map(str::to_owned),
            operator: self.operator.map(str::to_owned),
        })
    }
}

/// What a policy key does to a queue; the order is that of the report.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Effect {
    severity: Severity,
    reason: String,
}

fn error(reason: impl Into<String>) -> Effect {
    Effect { severity: Severity::Error, reason: reason.into() }
}

fn note(reason: impl Into<String>) -> Effect {
    Effect { severity: Severity::Note, reason: reason.into() }
}

struct InEffect<'a> {
    effective: Effective<'a>,
    role: Kind<'a>,
}

impl InEffect<'_> {
    /// What a key of the policy does to this queue; `None` where it does nothing.
    fn effect(&self, key: &str) -> Option<Effect> {
        match key {
            "message-ttl" => self.message_ttl(),
            "overflow" => self.overflow(),
            "max-length" | "max-length-bytes" => Some(self.max_length()),
            "expires" => Some(error(
                "the broker deletes the queue with its messages when it was not used for so long",
            )),
            "dead-letter-exchange" => self.dead_letter_exchange(),
            "dead-letter-routing-key" => self.dead_letter_routing_key(),
            "delivery-limit" => self.delivery_limit(),
            "delayed-retry-type" => self.delayed_retry(),
            "consumer-timeout" => (self.role == Kind::Business).then(|| {
                note("a worker that holds a delivery for longer is cancelled and begins again")
            }),
            _ if HARMLESS.contains(&key) || RETRY_BOUNDS.contains(&key) => None,
            _ => Some(note("overdue does not know this key: see the broker's documentation")),
        }
    }

    /// The smaller of argument and policy; messages that are in the queue already keep the TTL they came with.
    fn message_ttl(&self) -> Option<Effect> {
        let own = self.effective.argument("message-ttl");
        match self.role {
            Kind::Delay(_) if self.effective.least("message-ttl") == own => None,
            Kind::Delay(_) => Some(error("what is published to it comes out early")),
            Kind::Business => Some(error("what no worker takes in time is parked")),
            Kind::Parked => Some(error("what is parked is deleted after it")),
        }
    }

    /// By policy it overrides the argument on quorum queues. Where there is a limit, that is reported with the limit.
    fn overflow(&self) -> Option<Effect> {
        let at_least_once =
            self.effective.own_first("dead-letter-strategy") == Some("at-least-once");
        let beaten =
            self.effective.is_quorum() && at_least_once && !self.effective.rejects_when_full();
        beaten.then(|| {
            error(
                "dead-lettering silently falls back to at-most-once, and the dead letters that were \
                 under way when the policy came are deleted",
            )
        })
    }

    fn max_length(&self) -> Effect {
        error(match (self.role, self.effective.rejects_when_full()) {
            (Kind::Delay(_), true) => "full, it refuses notices: order services get a nack",
            (Kind::Delay(_), false) => "full, it lets the oldest notices out early",
            (Kind::Business, true) => "full, it stops every level that leads to it",
            (Kind::Business, false) => "full, it parks the oldest messages",
            (Kind::Parked, true) => "full, it stops every queue that parks there",
            (Kind::Parked, false) => "full, it deletes the oldest parked messages",
        })
    }

    /// The argument wins; the parking lot has none.
    fn dead_letter_exchange(&self) -> Option<Effect> {
        let own = self.effective.queue.arguments.contains_key("x-dead-letter-exchange");
        (!own).then(|| note("what is rejected there goes on to that exchange"))
    }

    /// The topology sets none, so the policy's is used.
    fn dead_letter_routing_key(&self) -> Option<Effect> {
        match self.role {
            Kind::Delay(_) => {
                Some(error("what is due loses its routing key, and goes to one place or is parked"))
            }
            Kind::Business => Some(note("what is parked from there loses its routing key")),
            Kind::Parked => None,
        }
    }

    /// Nobody consumes from a level, so its limit is never reached.
    fn delivery_limit(&self) -> Option<Effect> {
        let limit = self.effective.delivery_limit().filter(|_| self.effective.is_quorum())?;
        let own = self.effective.argument("delivery-limit");
        match self.role {
            Kind::Business if own != Some(limit) => {
                let reason = format!("a message is parked after {limit} deliveries");
                Some(Effect { severity: Severity::Warning, reason })
            }
            Kind::Parked => Some(error(format!(
                "a parked message that was looked at and given back {limit} times is deleted"
            ))),
            Kind::Business | Kind::Delay(_) => None,
        }
    }

    fn delayed_retry(&self) -> Option<Effect> {
        let on = self.effective.policy("delayed-retry-min").is_some_and(|min| min > 0)
            && self.effective.own_first("delayed-retry-type") != Some("disabled");
        (on && self.effective.is_quorum() && self.role == Kind::Business).then(|| {
            note("what a worker gives back, also at its end, comes again only after the delay")
        })
    }
}

const ALTERNATE: &str = "alternate-exchange";

/// Of an exchange to which workers put notices back, if it has an alternate exchange.
pub(super) const SAYS_NOTHING: &str =
    "what workers put back for a level that is gone is confirmed, and goes there";

/// Alternate exchanges for those that cannot have one. It gets at once what the plugin is to hold, and when it is due it
/// comes again.
pub fn exchange_policies(
    topology: &Topology,
    observed: &Snapshot,
    policies: &BTreeMap<String, AppliedPolicy>,
) -> Vec<Diagnostic> {
    let found = policies.iter().filter_map(|(name, AppliedPolicy { policy, definition })| {
        let there = observed.objects.exchanges.get(name)?;
        let reason = if topology.is_again(name) {
            SAYS_NOTHING
        } else if *name == topology.delayed_exchange() && there.kind == DELAYED_MESSAGE {
            "the plugin sends each notice there at once, and keeps it as well"
        } else {
            return None;
        };
        let value = definition.get(ALTERNATE)?;
        let value = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        Some(
            Diagnostic::new(
                "policy",
                Severity::Error,
                Subject::Policy(policy.clone()),
                format!("sets {ALTERNATE} to {value} on exchange {name}"),
            )
            .because(reason)
            .fix(Fix::Policies { policy: Some(policy.clone()), operator: None }),
        )
    });
    found.collect()
}
