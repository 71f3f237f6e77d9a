//! Policies that override or limit the arguments of the topology's queues and exchanges.

use std::{collections::BTreeMap, time::Duration};

use fancy_regex::Regex;
use serde_json::Value;

use super::effective_settings::Effective;
use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::{DELAYED_MESSAGE, Queue},
    plan::{
        Change, Plan,
        own_queues::{Kind, role},
        snapshot::{Policy, QueueStats, Snapshot},
    },
    text::{length, noun},
    topology::Topology,
};

/// Policy keys without effect on our queues: the argument wins, or the key is about placement.
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

/// Keys that are judged together with `delayed-retry-type`.
const RETRY_BOUNDS: [&str; 2] = ["delayed-retry-min", "delayed-retry-max"];

/// A finding per setting and effect, with all its queues: a catch-all policy applies to every queue.
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
        for hit in hits_of(observed, queue, role, stats) {
            hits.entry(hit).or_default().push(&queue.name);
        }
    }
    hits.into_iter().map(|(hit, queues)| hit.finding(&queues)).collect()
}

/// The effect of a policy on a queue, in the order of the report.
#[derive(PartialEq, Eq, PartialOrd, Ord)]
struct Hit<'a> {
    policy: Option<&'a str>,
    operator: Option<&'a str>,
    key: &'a str,
    value: String,
    effect: Effect,
}

fn hits_of<'a>(
    observed: &'a Snapshot,
    queue: &'a Queue,
    role: Kind<'a>,
    stats: &'a QueueStats,
) -> impl Iterator<Item = Hit<'a>> {
    let applied = InEffect { effective: Effective { queue, stats: Some(stats) }, role };
    stats.effective_policy_definition.iter().filter_map(move |(key, value)| {
        let effect = applied.effect(key)?;
        let set_by = |policies: &[Policy], name: &Option<String>| {
            let policy = policies.iter().find(|it| Some(&it.name) == name.as_ref());
            policy.map(|it| it.definition.get(key) == Some(value))
        };
        let mut policy = stats.policy.as_deref();
        let mut operator = stats.operator_policy.as_deref();
        match (
            set_by(&observed.policies, &stats.policy),
            set_by(&observed.operator_policies, &stats.operator_policy),
        ) {
            (Some(false), Some(true)) => policy = None,
            (Some(true), Some(false)) => operator = None,
            _ => {}
        }
        Some(Hit { policy, operator, key, value: shown(key, value), effect })
    })
}

/// The value of a key; a time also with its unit.
fn shown(key: &str, value: &Value) -> String {
    let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
    let ms = value.as_u64().filter(|_| ["message-ttl", "expires"].contains(&key));
    ms.map_or(text, |ms| format!("{ms} ({})", length(Duration::from_millis(ms))))
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

/// The effect of a policy key on a queue, in the order of the report.
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
    /// The effect of a policy key on this queue; `None` if there is none.
    fn effect(&self, key: &str) -> Option<Effect> {
        match key {
            "message-ttl" => self.message_ttl(),
            "overflow" => self.overflow(),
            "max-length" | "max-length-bytes" => Some(self.max_length()),
            "expires" => Some(error(
                "the broker deletes an unused queue with its messages after this time",
            )),
            "dead-letter-exchange" => self.dead_letter_exchange(),
            "dead-letter-routing-key" => self.dead_letter_routing_key(),
            "delivery-limit" => self.delivery_limit(),
            "delayed-retry-type" => self.delayed_retry(),
            "federation-upstream" | "federation-upstream-set" => {
                (self.role == Kind::Business).then(|| {
                    error("its workers also get what waits in the queue of this name on another broker")
                })
            }
            "consumer-timeout" => (self.role == Kind::Business).then(|| {
                note("a worker that holds a delivery for longer is cancelled and begins again")
            }),
            _ if HARMLESS.contains(&key) || RETRY_BOUNDS.contains(&key) => None,
            _ => Some(note("overdue does not know this key: see the broker's documentation")),
        }
    }

    /// The smaller of argument and policy wins; messages that are already in the queue keep their TTL.
    fn message_ttl(&self) -> Option<Effect> {
        let own = self.effective.argument("message-ttl");
        match self.role {
            Kind::Delay(_) if self.effective.least("message-ttl") == own => None,
            Kind::Delay(_) => Some(error("messages in it come out early")),
            Kind::Business => Some(error("messages that no worker takes in time are parked")),
            Kind::Parked => Some(error("what is parked is deleted after it")),
        }
    }

    /// On quorum queues the policy overrides the argument. The finding about a limit has the effect on a full queue.
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

    /// The argument wins; the parking lot has no argument.
    fn dead_letter_exchange(&self) -> Option<Effect> {
        let own = self.effective.queue.arguments.contains_key("x-dead-letter-exchange");
        (!own).then(|| note("what is rejected there goes on to that exchange"))
    }

    /// The topology sets no routing key, so the policy's key is used.
    fn dead_letter_routing_key(&self) -> Option<Effect> {
        match self.role {
            Kind::Delay(_) => {
                Some(error("what is due loses its routing key, and goes to one place or is parked"))
            }
            Kind::Business => Some(note("what is parked from there loses its routing key")),
            Kind::Parked => None,
        }
    }

    /// A delay queue has no consumers, so messages never reach its limit.
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

/// The effect of an alternate exchange on an exchange to which workers republish notices.
pub(super) const SAYS_NOTHING: &str =
    "what workers put back for a level that is gone is confirmed, and goes there";

/// Alternate exchanges on exchanges that must not have one: the plugin sends every notice to it at once, and again when the
/// notice is due. And federation, which brings messages from another broker.
pub(super) fn of_exchanges(topology: &Topology, observed: &Snapshot) -> Vec<Diagnostic> {
    let desired = topology.objects().exchanges;
    let mut found: BTreeMap<(&str, &str, String, &str), Vec<&str>> = BTreeMap::new();
    for (name, there) in &observed.objects.exchanges {
        let policy = applied(&observed.policies, name, "exchanges");
        for (key, value) in policy.iter().flat_map(|policy| &policy.definition) {
            let reason = match key.as_str() {
                ALTERNATE if topology.is_again(name) => SAYS_NOTHING,
                ALTERNATE
                    if *name == topology.delayed_exchange() && there.kind == DELAYED_MESSAGE =>
                {
                    "the plugin sends each notice there at once, and keeps it as well"
                }
                "federation-upstream"
                | "federation-upstream-set"
                | "federation-upstream-pattern"
                    if desired.contains_key(name) && !there.internal =>
                {
                    "what is published there on another broker comes in here as well: orders that this database does \
                     not know are parked"
                }
                _ => continue,
            };
            let policy = policy.map_or("", |policy| &policy.name);
            found.entry((policy, key, shown(key, value), reason)).or_default().push(name);
        }
    }
    let finding = |((policy, key, value, reason), names): ((&str, _, _, _), Vec<&str>)| {
        let noun = noun(names.len(), "exchange");
        let message = format!("sets {key} to {value} on {noun} {}", names.join(", "));
        let policy = policy.to_owned();
        Diagnostic::new("policy", Severity::Error, Subject::Policy(policy.clone()), message)
            .because(reason)
            .fix(Fix::Policies { policy: Some(policy), operator: None })
    };
    found.into_iter().map(finding).collect()
}

/// The findings that policies will cause after `plan` is applied, as [`findings`] reports them.
pub fn foreseen(topology: &Topology, observed: &Snapshot, plan: &Plan) -> Vec<Diagnostic> {
    let mut after = observed.clone();
    for change in plan.changes().cloned() {
        match change {
            Change::CreateExchange(it) => drop(after.objects.exchanges.insert(it.name.clone(), it)),
            Change::CreateQueue(it) => drop(after.objects.queues.insert(it.name.clone(), it)),
            // The marks show the owner of a queue.
            Change::Bind(it) => drop(after.objects.bindings.insert(it)),
            Change::DeleteQueue { queue, .. } => drop(after.objects.queues.remove(&queue)),
            _ => {}
        }
    }
    let queues = after.objects.queues.values();
    let stats = queues.map(|queue| (queue.name.clone(), effective(&after, queue))).collect();
    let mut found = findings(topology, &after, &stats);
    found.extend(of_exchanges(topology, &after));
    found.retain(|it| it.severity > Severity::Note);
    found
}

/// The merged policies for a queue that may not exist yet. An operator policy is merged into the policy: of two numbers the
/// smaller one wins, otherwise the operator's value. <https://www.rabbitmq.com/docs/policies#operator-policies>
fn effective(observed: &Snapshot, queue: &Queue) -> QueueStats {
    let of_type = format!("{}_queues", queue.kind);
    let applied = |policies| applied(policies, &queue.name, &of_type);
    let (policy, operator) = (applied(&observed.policies), applied(&observed.operator_policies));
    let mut merged = policy.map(|it| it.definition.clone()).unwrap_or_default();
    for (key, value) in operator.iter().flat_map(|it| &it.definition) {
        let own = merged.get(key).and_then(Value::as_i64);
        let is_larger = value.as_i64().zip(own).is_some_and(|(value, own)| value > own && own >= 0);
        if !is_larger {
            merged.insert(key.clone(), value.clone());
        }
    }
    QueueStats {
        name: queue.name.clone(),
        policy: policy.map(|it| it.name.clone()),
        operator_policy: operator.map(|it| it.name.clone()),
        effective_policy_definition: merged,
        ..QueueStats::default()
    }
}

/// The policy that applies to an object. Skips a pattern that this program cannot read: the broker's next answer decides.
fn applied<'a>(policies: &'a [Policy], name: &str, kind: &str) -> Option<&'a Policy> {
    let is_for = |it: &&Policy| {
        let fits = it.apply_to == "all"
            || it.apply_to == kind
            || it.apply_to == "queues" && kind.ends_with("_queues");
        fits && Regex::new(&it.pattern).is_ok_and(|it| it.is_match(name).unwrap_or(false))
    };
    policies.iter().filter(is_for).max_by_key(|it| it.priority)
}
