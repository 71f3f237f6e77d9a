//! The topology: its file, its rights, and its state on the broker: applied, consumed, stuck, parked.

use std::collections::{BTreeMap, BTreeSet};

use fancy_regex::Regex;

use super::facts::{Facts, Permission, ProbeError, known};
use crate::{
    condition,
    diagnostic::{Diagnostic, Draft, Fix, Severity, counts_by_severity},
    permissions::{Need, Object, Right, Role},
    plan::{
        diff::diff,
        generation::number_of,
        snapshot::{QueueStats, Snapshot},
    },
    text::counted,
    topology::Topology,
};

/// Is the topology file valid?
pub(crate) fn file(facts: &Facts) -> Draft {
    match &facts.topology {
        Ok(topology) => Draft::ok(format!(
            "{}: {}, {}",
            topology.name,
            topology.delays_in_short(),
            counted(topology.timeouts.len(), "timeout")
        )),
        Err(ProbeError { reason, fix, .. }) => Draft::error(reason.clone(), fix.clone()),
    }
}

/// Is the topology applied to the broker?
pub(crate) fn applied(facts: &Facts) -> Draft {
    on_broker(facts, |topology, observed, _| {
        let found = facts.verified.as_deref().unwrap_or_default();
        judge_applied(topology, observed, found)
    })
}

/// The summary of the plan, with the worst severity of the findings that `overdue apply` fixes.
fn judge_applied(topology: &Topology, observed: &Snapshot, found: &[Diagnostic]) -> Draft {
    let plan = diff(topology, observed, &BTreeSet::new());
    let fix = "look at overdue plan, then run: overdue apply";
    let worst = found.iter().find(|finding| is_applied(finding));
    match worst.filter(|worst| worst.severity == Severity::Error) {
        Some(Diagnostic { subject, message, .. }) => {
            Draft::error(format!("{}: {subject}: {message}", plan.summary()), fix)
        }
        None if plan.is_empty() => Draft::ok(plan.summary()),
        None => Draft::warning(plan.summary(), fix),
    }
}

/// Whether `overdue apply` fixes the finding.
pub(super) fn is_applied(finding: &Diagnostic) -> bool {
    finding.fix == Some(Fix::Apply)
}

/// Does `overdue verify` find other faults?
pub(crate) fn verified(facts: &Facts) -> Draft {
    known(&facts.known_topology(), |_| known(&facts.verified, |found| judge_verified(found)))
}

/// The worst severity of the findings; each has its own line below.
fn judge_verified(found: &[Diagnostic]) -> Draft {
    let others: Vec<_> = found.iter().filter(|finding| !is_applied(finding)).collect();
    let severities = others.iter().map(|finding| finding.severity);
    let draft = Draft::ok("no policy, binding or dead letter is in the way");
    match severities.clone().max() {
        None => draft,
        Some(worst) => {
            Draft { severity: Some(worst), message: counts_by_severity(severities), ..draft }
                .fix(Fix::Text("see the lines below, and why: overdue verify".to_owned()))
        }
    }
}

/// Does a worker consume from each business queue, and from the queue of `[compat.x-delay]`?
pub(crate) fn consumers(facts: &Facts) -> Draft {
    on_broker(facts, judge_consumers)
}

/// A worker on any generation of a queue is enough; foreign consumers do not count. A missing queue has no worker, and needs none.
fn judge_consumers(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> Draft {
    let mut total = 0;
    let (mut absent, mut without) = (Vec::new(), Vec::new());
    let compat = topology.compat.iter().map(|_| topology.compat_queue());
    let bases: Vec<String> = topology.all_business_queues().chain(compat).collect();
    let all = bases.len();
    for base in bases {
        let ours = stats.values().filter(|queue| number_of(&base, &queue.name).is_some());
        let generations: Vec<&QueueStats> = ours.collect();
        let foreign = |queue: &str| observed.foreign_consumers.get(queue).copied().unwrap_or(0);
        let workers =
            |queue: &&QueueStats| Some(queue.consumers?.saturating_sub(foreign(&queue.name)));
        let consumers: u64 = generations.iter().filter_map(workers).sum();
        total += consumers;
        if generations.is_empty() {
            absent.push(base);
        } else if consumers == 0 {
            without.push(base);
        }
    }
    let none = format!("none on {}", without.join(", "));
    if !absent.is_empty() {
        let verb = if absent.len() == 1 { "is" } else { "are" };
        let not_there = format!("{} {verb} not there yet", absent.join(", "));
        let finding = if without.is_empty() { not_there } else { format!("{none}; {not_there}") };
        return Draft::warning(finding, "make it and start a worker: overdue apply && overdue run");
    }
    if !without.is_empty() {
        return Draft::warning(none, "start a worker: overdue run");
    }
    let noun = if topology.compat.is_none() { "business queue" } else { "queue" };
    Draft::ok(format!("{total} on {}", counted(all, noun)))
}

/// The number of slots with which a burst takes half as long as with the broker's default of 32 (docs/doctor.md).
const FOR_BURSTS: u64 = 1_000;

/// Do the dead letter workers have enough slots? The settings have the number of slots; the broker has the slots in use.
pub(crate) fn dead_letters(facts: &Facts) -> Draft {
    on_broker(facts, |topology, _, stats| {
        judge_dead_letters(topology, stats, facts.dead_letter_slots)
    })
}

/// If all slots are in use, there is a burst or the messages are stuck; `overdue verify` takes two readings to decide.
fn judge_dead_letters(
    topology: &Topology,
    stats: &BTreeMap<String, QueueStats>,
    slots: u64,
) -> Draft {
    let prefix = format!("{}.", topology.name);
    let ours = stats.values().filter(|queue| queue.name.starts_with(&prefix));
    let under_way: Vec<(&str, u64)> =
        ours.map(|q| (q.name.as_str(), q.dead_letters().unwrap_or_default())).collect();
    let total: u64 = under_way.iter().map(|(_, held)| held).sum();
    let full: Vec<String> = under_way
        .iter()
        .filter(|(_, held)| *held >= slots)
        .map(|(queue, held)| format!("{queue} ({held})"))
        .collect();
    if full.is_empty() {
        let found = format!(
            "{total} under way; each queue hands on {slots} at once (broker.dead_letter_slots)"
        );
        return if slots < FOR_BURSTS {
            Draft::note(found, format!("for bursts, {}", more_slots()))
        } else {
            Draft::ok(found)
        };
    }
    let stuck = "overdue verify says whether they are stuck";
    Draft::warning(
        format!("all {slots} slots are in use: {}", full.join(", ")),
        if slots < FOR_BURSTS {
            format!("{stuck}; for bursts, {}", more_slots())
        } else {
            stuck.to_owned()
        },
    )
}

/// The settings that add slots.
fn more_slots() -> String {
    format!(
        "in advanced.config: [{{rabbit, [{{dead_letter_worker_consumer_prefetch, {FOR_BURSTS}}}]}}]. and \
         broker.dead_letter_slots = {FOR_BURSTS} (docs/doctor.md)"
    )
}

/// Are messages parked?
pub(crate) fn parked(facts: &Facts) -> Draft {
    on_broker(facts, |topology, _, stats| judge_parked(topology, stats))
}

/// Parked messages of all generations of the parking lot.
fn judge_parked(topology: &Topology, stats: &BTreeMap<String, QueueStats>) -> Draft {
    let base = topology.parked_queue();
    let lots = stats.values().filter(|queue| number_of(&base, &queue.name).is_some());
    let counts: Vec<Option<u64>> = lots.map(|queue| queue.messages).collect();
    match condition::parked(counts.iter().flatten().sum()) {
        None if counts.contains(&None) => Draft::warning(
            format!("how many messages {base} has is not known: no leader, or no statistics yet"),
            "look at replicas, then run this again",
        ),
        None => Draft::ok("nothing"),
        Some(parked) => Draft::warning(
            format!("{parked} in {base}; each says why in x-park-reason"),
            "overdue parked list shows the reasons; overdue parked replay publishes messages again",
        ),
    }
}

/// Judges the topology, its objects and its statistics, if all are known.
fn on_broker(
    facts: &Facts,
    judge: impl FnOnce(&Topology, &Snapshot, &BTreeMap<String, QueueStats>) -> Draft,
) -> Draft {
    known(&facts.known_topology(), |topology| {
        known(&facts.broker.api.observed, |observed| {
            known(&facts.broker.api.stats, |stats| judge(topology, observed, stats))
        })
    })
}

/// May the user of the management API plan and apply? A worker needs no such rights.
pub(crate) fn administrator(facts: &Facts) -> Draft {
    rights(facts, &facts.broker.api.user, "topology", Draft::warning)
}

/// May the AMQP user work?
pub(crate) fn worker(facts: &Facts) -> Draft {
    rights(facts, &facts.broker.user, "worker", Draft::error)
}

fn rights(facts: &Facts, user: &str, role: &str, lacking: fn(String, String) -> Draft) -> Draft {
    known(&facts.known_topology(), |topology| {
        known(&facts.broker.api.permissions, |permissions| {
            let vhost = &facts.broker.virtual_host;
            let mut of_user = permissions.iter();
            let own = of_user.find(|own| own.user == *user && own.virtual_host == *vhost);
            judge_rights(topology, role, user, own, lacking)
        })
    })
}

/// `role`: a role of `overdue permissions`. `lacking`: builds the finding if a right is missing.
fn judge_rights(
    topology: &Topology,
    role: &str,
    user: &str,
    own: Option<&Permission>,
    lacking: fn(String, String) -> Draft,
) -> Draft {
    let roles = Role::all(topology);
    let purpose = if role == "topology" { "topology administrator" } else { role };
    let fix = format!("overdue permissions prints what a {purpose} needs");
    let Some(own) = own else {
        return lacking(format!("user {user} has no permissions in this virtual host"), fix);
    };
    let needs = roles.iter().filter(|known| known.name == role).flat_map(|role| &role.needs);
    // Each expression is compiled once. An empty expression allows nothing.
    let compiled = [&own.configure, &own.write, &own.read].map(|expression| {
        let regex = (!expression.is_empty()).then(|| Regex::new(expression)).transpose();
        regex.map_err(|_| expression.clone())
    });
    let mut missing = Vec::new();
    for need in needs {
        match allows(&compiled, need) {
            Ok(true) => {}
            Ok(false) => missing.push(need),
            Err(expression) => {
                let finding = format!("the expression {expression} cannot be read here");
                return Draft::warning(finding, fix);
            }
        }
    }
    let Some(first) = missing.first() else {
        return Draft::ok(format!("user {user} has all that a {purpose} needs"));
    };
    let others = match missing.len() {
        1 => String::new(),
        many => format!(", and {} more", many - 1),
    };
    let (right, object, why) = (first.right, first.object.name(), first.why);
    lacking(format!("user {user} lacks {right} on {object} ({why}){others}"), fix)
}

/// Whether a user's expressions allow a need; `Err` is an expression that this program cannot read, because the broker takes all of PCRE.
fn allows(
    [configure, write, read]: &[Result<Option<Regex>, String>; 3],
    need: &Need,
) -> Result<bool, String> {
    let expression = match need.right {
        Right::Configure => configure,
        Right::Write => write,
        Right::Read => read,
    };
    let name = match &need.object {
        Object::Named(name) => name.clone(),
        Object::Generations(name) => format!("{name}.2"),
        Object::Shards(name) => format!("{name}.shard-0"),
        Object::Below(name) => format!("{name}.x"),
    };
    let Some(regex) = expression.as_ref().map_err(Clone::clone)? else { return Ok(false) };
    regex.is_match(&name).map_err(|_| regex.as_str().to_owned())
}
