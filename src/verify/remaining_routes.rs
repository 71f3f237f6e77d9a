//! Rules about exchanges, queues and bindings together. The objects of a topology keep all rules (a test shows it for any
//! topology); the objects on a broker may not.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::dead_letters::dead_letter_keys;
use crate::{
    diagnostic::{Diagnostic, Draft, Fix, Severity, Subject},
    objects::{
        Argument, Binding, DELAYED_MESSAGE, Exchange, Objects, Queue,
        routing::{dead_letters, overlap, route},
        shard::{self, CONSISTENT_HASH},
    },
    plan::{
        Change, Plan,
        generation::{Resolved, is_of, is_shard_of},
        own_queues::{Kind, role},
        snapshot::{SLOTS, Snapshot},
    },
    topology::Topology,
};

/// A named rule about objects.
#[derive(Clone, Copy)]
pub struct Rule {
    /// Stable across versions.
    pub name: &'static str,
    /// The severity of each finding.
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
    rule(Severity::Error, "dead-letter-cycle", dead_letter_cycles),
    rule(Severity::Error, "alternate-exchange", incomplete_alternates),
    rule(Severity::Error, "routing-nowhere", lost_dead_letters),
    rule(Severity::Warning, "routing-overlap", several_queues),
    rule(Severity::Warning, "at-least-once", at_most_once),
];

/// Runs every rule on the topology's queues and exchanges in `objects`. The rules see arguments, not policies.
pub fn check(topology: &Topology, objects: &Objects) -> Vec<Diagnostic> {
    let examined = Examined { topology, objects };
    let run = |rule: &Rule| {
        let Rule { name, severity, run } = *rule;
        let whole = || Subject::Area("Topology");
        run(&examined).into_iter().map(move |draft| draft.complete(name, severity, whole()))
    };
    RULES.iter().flat_map(run).collect()
}

/// Findings that other modules do not report: the rules run on the objects after all other findings are fixed. The remaining
/// findings are about foreign objects and retired generations.
pub(super) fn findings(
    topology: &Topology,
    observed: &Snapshot,
    plan: &Plan,
    resolved: &Resolved,
) -> Vec<Diagnostic> {
    check(topology, &put_right(topology, &observed.objects, plan, resolved))
}

/// The objects on the broker after repair: with all objects of the topology, and without unwanted bindings between them.
/// Queues that are being replaced or deleted are left out.
fn put_right(topology: &Topology, observed: &Objects, plan: &Plan, resolved: &Resolved) -> Objects {
    let mut objects = observed.clone();
    let ours = |name: &str, is_queue: bool| {
        if is_queue {
            observed.queues.get(name).is_some_and(|queue| role(topology, observed, queue).is_some())
        } else {
            resolved.objects.exchanges.contains_key(name) || is_of_shards(topology, observed, name)
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

/// Whether an exchange is or was in front of the topology's shards.
fn is_of_shards(topology: &Topology, observed: &Objects, exchange: &str) -> bool {
    let kind = observed.exchanges.get(exchange).map(|exchange| exchange.kind.as_str());
    kind == Some(CONSISTENT_HASH) && observed.owner_of_exchange(exchange) == Some(&topology.name)
}

/// A topology, and objects that include its own.
struct Examined<'a> {
    topology: &'a Topology,
    objects: &'a Objects,
}

impl<'a> Examined<'a> {
    /// The topology's queues that exist, each with its role.
    fn queues(&self) -> impl Iterator<Item = (&'a Queue, Kind<'a>)> {
        let Self { topology, objects } = *self;
        let role = move |queue| Some((queue, role(topology, objects, queue)?));
        objects.queues.values().filter_map(role)
    }

    /// The role of a queue; `None` for a foreign queue.
    fn role(&self, queue: &str) -> Option<Kind<'a>> {
        role(self.topology, self.objects, self.objects.queues.get(queue)?)
    }

    /// How many of `queues` get a copy of a message: all shards of a timeout together get one.
    fn takers(&self, queues: &BTreeSet<String>) -> usize {
        let bases = self.topology.timeouts.iter().filter(|timeout| timeout.shards.is_some());
        let bases: Vec<String> = bases.map(|it| self.topology.business_queue(it)).collect();
        let shared = |queue: &String| {
            let base = bases.iter().find(|base| is_shard_of(base, queue));
            base.map_or_else(|| queue.clone(), |base| shard::exchange(base))
        };
        queues.iter().map(shared).collect::<BTreeSet<_>>().len()
    }

    /// Routing keys of messages that publishers may send to an exchange, or that become due at the due exchange.
    fn keys(&self, exchange: &str) -> impl Iterator<Item = String> {
        let due = exchange == self.topology.due_exchange();
        let sent = self.topology.publications();
        sent.filter(move |(entry, _)| due || entry == exchange).map(|(_, key)| key)
    }
}

/// Whether messages expire in a queue.
fn expires(queue: &Queue) -> bool {
    queue.message_ttl_ms().is_some()
}

/// Cycles of queues that all have a TTL. A queue without a TTL waits for a consumer, which ends the cycle; and RabbitMQ
/// allows a cycle with a rejection (<https://www.rabbitmq.com/docs/dlx#dead-letter-cycle>).
fn dead_letter_cycles(examined: &Examined<'_>) -> Vec<Draft> {
    let mut on_a_cycle: BTreeSet<&str> = BTreeSet::new();
    // A single wrong binding makes a cycle of every level, so all cycles through an exchange are one finding.
    let mut through: BTreeMap<Option<&str>, Vec<Vec<&str>>> = BTreeMap::new();
    let mut next = Targets::new();
    for (queue, _) in examined.queues() {
        let Some(found) = way_back(examined.objects, &mut next, queue) else { continue };
        if !found.iter().any(|name| on_a_cycle.contains(name)) {
            through.entry(queue.dead_letter_exchange()).or_default().push(found.clone());
        }
        on_a_cycle.extend(found);
    }
    through.values().filter_map(|cycles| cycle(cycles)).collect()
}

fn cycle(cycles: &[Vec<&str>]) -> Option<Draft> {
    let (cycle, others) = cycles.split_first()?;
    let start = cycle.first().copied()?;
    let path = [cycle.as_slice(), &[start]].concat().join(" -> ");
    let others: Vec<&str> = others.iter().filter_map(|cycle| cycle.first().copied()).collect();
    let others = if others.is_empty() {
        String::new()
    } else {
        format!("; so can those of {}", others.join(", "))
    };
    let message = format!("its messages can go round forever: {path}{others}");
    let reason = format!(
        "RabbitMQ drops them there, or, with at-least-once, keeps each in one of {SLOTS} slots; when all are taken \
         nothing leaves the queue"
    );
    let fix = "delete the binding, or change the dead letter exchange, that leads back";
    let draft = Draft::about(Subject::Queue(start.to_owned()), message);
    Some(draft.because(reason).fix(Fix::Text(fix.to_owned())))
}

/// A cache of [`targets`] by queue: every queue of a ladder routes to all smaller ones.
type Targets<'a> = BTreeMap<&'a str, Vec<&'a Queue>>;

/// The shortest path on which a message returns to `start`: the queues, `start` first.
fn way_back<'a>(
    objects: &'a Objects,
    known: &mut Targets<'a>,
    start: &'a Queue,
) -> Option<Vec<&'a str>> {
    let mut came_from: BTreeMap<&str, &str> = BTreeMap::new();
    let mut next = VecDeque::from([start]);
    while let Some(queue) = next.pop_front() {
        for target in known.entry(&queue.name).or_insert_with(|| targets(objects, queue)) {
            if target.name == start.name {
                return Some(path_to(&came_from, &start.name, &queue.name));
            }
            if !came_from.contains_key(target.name.as_str()) {
                came_from.insert(&target.name, &queue.name);
                next.push_back(target);
            }
        }
    }
    None
}

fn path_to<'a>(
    came_from: &BTreeMap<&'a str, &'a str>,
    start: &'a str,
    last: &'a str,
) -> Vec<&'a str> {
    let mut names = vec![last];
    let mut at = last;
    while at != start {
        let Some(before) = came_from.get(at) else { break };
        names.push(before);
        at = before;
    }
    names.reverse();
    names
}

/// Queues with a TTL that a message expired in `queue` can reach.
fn targets<'a>(objects: &'a Objects, queue: &Queue) -> Vec<&'a Queue> {
    let routed = dead_letters(objects, queue).filter(|_| expires(queue)).unwrap_or_default();
    let queues = routed.queues.iter().filter_map(|name| objects.queues.get(name));
    queues.filter(|queue| expires(queue)).collect()
}

/// Every published or due message must reach a queue, whatever its routing key. The plugin's exchange cannot have an
/// alternate exchange, which would get every message at once.
fn incomplete_alternates(examined: &Examined<'_>) -> Vec<Draft> {
    let Examined { topology, objects } = examined;
    let unrouted_due = format!(
        "a message that is due and has no route keeps one of the {SLOTS} slots of its queue; when all are taken \
         nothing leaves that queue"
    );
    let unrouted_notice = "a notice without a route is returned, or lost where its publisher does not ask for returns";
    let entries = topology.entries().into_iter().map(|entry| entry.exchange);
    let mut names = vec![topology.entry_exchange()];
    names.extend(entries.filter(|name| *name != topology.entry_exchange()));
    names.push(topology.due_exchange());
    let drafts = names.into_iter().filter_map(|name| {
        let exchange = objects.exchanges.get(&name).filter(|it| it.kind != DELAYED_MESSAGE)?;
        let mut queues = examined.queues();
        let leads_there = queues.any(|(queue, _)| queue.dead_letter_exchange() == Some(&name));
        let reason = if leads_there { unrouted_due.as_str() } else { unrouted_notice };
        Some(incomplete(objects, exchange)?.because(reason))
    });
    drafts.collect()
}

fn incomplete(objects: &Objects, exchange: &Exchange) -> Option<Draft> {
    let name = &exchange.name;
    let key = lost_key(objects, name)?;
    let about = |message: String| Draft::about(Subject::Exchange(name.clone()), message);
    let Some(alternate) = exchange.alternate() else {
        return Some(
            about("it has no alternate exchange".to_owned()).fix(Fix::Replace(name.clone())),
        );
    };
    if let Some(binding) = hiding(objects, name, &key) {
        let message = format!(
            "exchange {} takes messages with the routing key {key} from it and has no queue for them, so they do not \
             go to the alternate exchange {alternate}",
            binding.destination
        );
        return Some(about(message).fix(Fix::Unbind(binding.clone())));
    }
    let what = match objects.exchanges.get(alternate) {
        None => "does not exist",
        Some(_) => "has no queue for them",
    };
    let message = format!(
        "messages with the routing key {key} go to its alternate exchange {alternate}, which {what}"
    );
    Some(about(message).fix(Fix::Apply))
}

/// A routing key whose messages reach no queue from `exchange`.
fn lost_key(objects: &Objects, exchange: &str) -> Option<String> {
    let bindings = objects.bindings.iter().filter(|binding| binding.source == exchange);
    let keys = bindings.map(|binding| example(&binding.routing_key));
    let mut keys = std::iter::once("any.key".to_owned()).chain(keys);
    keys.find(|key| route(objects, exchange, key).queues.is_empty())
}

/// The binding to another exchange that takes messages with this key, so that the alternate exchange does not get them.
fn hiding<'a>(objects: &'a Objects, exchange: &str, key: &str) -> Option<&'a Binding> {
    let mut bindings = objects.bindings.iter().filter(|b| b.source == exchange && !b.to_queue);
    bindings.find(|b| overlap(&b.routing_key, key))
}

/// A routing key that a pattern matches.
fn example(pattern: &str) -> String {
    pattern.replace(['*', '#'], "any")
}

fn lost_dead_letters(examined: &Examined<'_>) -> Vec<Draft> {
    let queues = examined.queues();
    queues
        .filter_map(|(queue, role)| {
            let exchange = queue.dead_letter_exchange()?;
            let draft = missing(examined, queue, exchange)
                .or_else(|| misdirected(examined, queue, role, exchange))?;
            Some(draft.because(reason(queue)))
        })
        .collect()
}

fn reason(queue: &Queue) -> &'static str {
    match queue.kind.as_str() {
        "quorum" => "messages that leave it are stuck or lost, and reach no worker",
        _ => "messages that leave it are lost",
    }
}

fn missing(examined: &Examined<'_>, queue: &Queue, exchange: &str) -> Option<Draft> {
    if exchange.is_empty() || examined.objects.exchanges.contains_key(exchange) {
        return None;
    }
    let message = format!("it dead-letters to exchange {exchange}, which does not exist");
    let fix = format!(
        "until it is empty: create a fanout exchange {exchange}, and bind exchange {} to it",
        examined.topology.due_exchange()
    );
    Some(Draft::about(Subject::Queue(queue.name.clone()), message).fix(Fix::Text(fix)))
}

/// A due message of a level must reach the queue of its timeout; other dead letters may reach any queue.
fn misdirected(
    examined: &Examined<'_>,
    queue: &Queue,
    role: Kind<'_>,
    exchange: &str,
) -> Option<Draft> {
    // The queues of this exchange are foreign; the broker parks a message that no queue takes.
    if exchange == examined.topology.compat_due_exchange() {
        return None;
    }
    let keys = dead_letter_keys(examined.topology, examined.objects, queue, role);
    let lost = keys.into_iter().find_map(|key| {
        let routed = route(examined.objects, exchange, &key.text);
        let arrives = routed.queues.iter().any(|target| match &key.queue {
            Some(base) => is_of(base, target),
            // A level may set the same routing key for all due messages.
            None if role != Kind::Business => examined.role(target) == Some(Kind::Business),
            None => true,
        });
        (!arrives).then_some((key, routed.queues))
    });
    let (key, reached) = lost?;
    let wanted = key.queue.map(|queue| format!(", not to queue {queue}")).unwrap_or_default();
    let to = match reached.into_iter().collect::<Vec<_>>() {
        none if none.is_empty() => "no queue".to_owned(),
        reached => format!("{}{wanted}", reached.join(", ")),
    };
    let due = examined.topology.due_exchange();
    let name = match exchange {
        "" => "the default exchange".to_owned(),
        _ => format!("exchange {exchange}"),
    };
    let message =
        format!("{name} leads what comes out of it with the routing key {} to {to}", key.text);
    let fix = match exchange {
        // The default exchange takes no bindings.
        "" => format!("create queue {}, and move what comes into it to exchange {due}", key.text),
        _ if exchange == due => {
            format!("bind the queue of its timeout to {name} by {}", key.text)
        }
        _ => format!("bind exchange {due} to {name}"),
    };
    let fix = format!("until it is empty: {fix}");
    Some(Draft::about(Subject::Queue(queue.name.clone()), message).fix(Fix::Text(fix)))
}

fn several_queues(examined: &Examined<'_>) -> Vec<Draft> {
    let topology = examined.topology;
    let entries = topology.entries().into_iter().map(|entry| entry.exchange);
    let exchanges: Vec<String> = entries.chain([topology.due_exchange()]).collect();
    exchanges.iter().filter_map(|exchange| of_exchange(examined, exchange)).collect()
}

/// A finding that lists all sets of several queues that get the same message, with a routing key for each set.
fn of_exchange(examined: &Examined<'_>, exchange: &str) -> Option<Draft> {
    let due = exchange == examined.topology.due_exchange();
    let counts = |queue: &String| match examined.role(queue) {
        // A due message that returns to a level is a cycle, which another rule reports.
        Some(Kind::Delay(_)) => !due,
        role => role.is_some(),
    };
    let mut found: BTreeMap<BTreeSet<String>, String> = BTreeMap::new();
    for key in examined.keys(exchange) {
        let mut queues = route(examined.objects, exchange, &key).queues;
        queues.retain(counts);
        if examined.takers(&queues) > 1 {
            found.entry(queues).or_insert(key);
        }
    }
    let mut cases = found.into_iter().map(|(queues, key)| {
        format!("{key} to {}", queues.into_iter().collect::<Vec<_>>().join(" and "))
    });
    let first = cases.next()?;
    let others: Vec<String> = cases.map(|case| format!("; {case}")).collect();
    Some(several(examined, exchange, &format!("{first}{}", others.concat())))
}

fn several(examined: &Examined<'_>, exchange: &str, cases: &str) -> Draft {
    let message = format!("it sends one message to several queues, by routing key: {cases}");
    let reason = if exchange == examined.topology.due_exchange() {
        "the worker of each queue treats the order"
    } else {
        "the order comes due more than once, or before its delay"
    };
    let mut bindings = examined.objects.bindings.iter();
    let through = bindings.find(|binding| binding.source == exchange && !binding.to_queue);
    let fix = through.map_or_else(
        || Fix::Text("delete or narrow the binding that is too many".to_owned()),
        |binding| Fix::Unbind(binding.clone()),
    );
    Draft::about(Subject::Exchange(exchange.to_owned()), message).because(reason).fix(fix)
}

/// At-least-once needs both; without reject-publish the broker silently falls back to at-most-once
/// (<https://www.rabbitmq.com/docs/quorum-queues#dead-lettering>).
const NEEDED: [(&str, &str); 2] =
    [("x-dead-letter-strategy", "at-least-once"), ("x-overflow", "reject-publish")];

fn at_most_once(examined: &Examined<'_>) -> Vec<Draft> {
    let quorum = examined.queues().filter(|(queue, _)| queue.kind == "quorum");
    quorum.filter_map(|(queue, _)| lacks(queue, queue.dead_letter_exchange()?)).collect()
}

fn lacks(queue: &Queue, exchange: &str) -> Option<Draft> {
    let has = |key: &str| queue.arguments.get(key).and_then(Argument::text);
    let missing = NEEDED.iter().filter(|(key, value)| has(key) != Some(value));
    let missing: Vec<String> = missing.map(|(key, value)| format!("{key} = {value}")).collect();
    if missing.is_empty() {
        return None;
    }
    let message = format!("it dead-letters at most once: it lacks {}", missing.join(" and "));
    let draft = Draft::about(Subject::Queue(queue.name.clone()), message)
        .because("a message that is due is lost where the queue it goes to is unavailable")
        .fix(Fix::Text(format!(
            "keep exchange {exchange} and its queues as they are until this queue is empty"
        )));
    Some(draft)
}
