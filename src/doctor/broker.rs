//! RabbitMQ: connection, management API and version; feature flags, plugins, alarms and replicas of its nodes.

use std::collections::BTreeSet;

use super::facts::{Alarm, AmqpConnection, Encryption, Facts, Overview, Probed, Replicas, known};
use crate::{
    diagnostic::{Draft, Severity, Subject},
    objects::shard::{CONSISTENT_HASH, CONSISTENT_HASH_PLUGIN, ENABLE_CONSISTENT_HASH},
    plan::own_queues::{Kind, role},
    text::{counted, quote},
    topology::{Topology, broker_version::TESTED, strategy::Strategy},
    verify::held_back::NO_LEADER,
};

/// The fix of a check that had no connection.
const NO_CONNECTION: &str = "see the errors above";

/// Does the broker answer?
pub(crate) fn reachable(facts: &Facts) -> Draft {
    match &facts.broker.connection {
        AmqpConnection::Unreachable(reason) | AmqpConnection::NoAddress(reason) => Draft::error(
            reason.clone(),
            "start RabbitMQ, or correct broker.url (OVERDUE_BROKER__URL)",
        ),
        AmqpConnection::Full(reason) => Draft::error(
            reason.clone(),
            "rabbitmqctl set_vhost_limits or set_user_limits, key max-connections",
        ),
        _ => Draft::ok(format!("{} answers", facts.broker.address)),
    }
}

/// May the user log in?
pub(crate) fn login(facts: &Facts) -> Draft {
    let user = &facts.broker.user;
    match &facts.broker.connection {
        AmqpConnection::Unreachable(_) | AmqpConnection::NoAddress(_) | AmqpConnection::Full(_) => {
            Draft::warning("not known: no connection", NO_CONNECTION)
        }
        AmqpConnection::LoginRefused(reason) => Draft::error(
            reason.clone(),
            format!("correct broker.url, or: rabbitmqctl change_password {}", quote(user)),
        ),
        _ => Draft::ok(format!("user {user} logs in")),
    }
}

/// Does the virtual host exist, and may the user access it?
pub(crate) fn virtual_host(facts: &Facts) -> Draft {
    let (user, vhost) = (&facts.broker.user, &facts.broker.virtual_host);
    match &facts.broker.connection {
        AmqpConnection::Open { .. } => Draft::ok(format!("{vhost} is open to {user}")),
        AmqpConnection::NoVirtualHost(reason) => Draft::error(
            reason.clone(),
            format!(
                "create it, with the rights that `overdue permissions` prints: rabbitmqctl add_vhost {}",
                quote(vhost)
            ),
        ),
        _ => Draft::warning("not known: no login", NO_CONNECTION),
    }
}

/// Does AMQP use TLS if it leaves the machine?
pub(crate) fn tls(facts: &Facts) -> Draft {
    let broker = &facts.broker;
    if broker.tls != Encryption::None
        && matches!(
            broker.connection,
            AmqpConnection::Unreachable(_) | AmqpConnection::NoAddress(_)
        )
    {
        return Draft::warning("not known: no connection", NO_CONNECTION);
    }
    judge_tls(
        broker.tls,
        broker.loopback,
        ["write amqps:// in broker.url, port 5671", "cacertfile"],
    )
}

/// TLS is expected for another machine. `fix`: how to start using TLS, and the parameter that names a CA.
pub(crate) fn judge_tls(tls: Encryption, loopback: bool, fix: [&str; 2]) -> Draft {
    let [begin, ca] = fix;
    match (tls, loopback) {
        (Encryption::Verified, _) => Draft::ok("in use, and the certificate is verified"),
        (Encryption::ChainVerified, _) => Draft::ok(
            "in use, and a trusted CA has signed the certificate; for which host is not checked",
        ),
        (Encryption::Unverified, true) => Draft::ok(
            "in use; the certificate is not verified, the connection does not leave this machine",
        ),
        (Encryption::Unverified, false) => Draft::warning(
            "in use, and the certificate is not verified: an attacker in between can read and change everything",
            format!("name the CA's file with {ca}, and have the certificate verified"),
        ),
        (Encryption::None, true) => {
            Draft::ok("not in use; the connection does not leave this machine")
        }
        (Encryption::None, false) => {
            Draft::warning("not in use: passwords and orders can be read", begin)
        }
    }
}

/// Does the broker answer a publish, or has it blocked the connection?
pub(crate) fn publishing(facts: &Facts) -> Draft {
    match &facts.broker.connection {
        AmqpConnection::Open { answers: true } => Draft::ok("the broker answers to a publish"),
        AmqpConnection::Open { answers: false } => Draft::error(
            "a publish gets no answer: the broker has blocked the connection, or it has ended",
            "see memory-alarm and disk-alarm, and the broker's log; workers cannot retry or park messages meanwhile",
        ),
        _ => Draft::warning("not known: no connection", NO_CONNECTION),
    }
}

/// Can the management API be called?
pub(crate) fn management_api(facts: &Facts) -> Draft {
    match &facts.broker.api.overview {
        Ok(_) => Draft::ok(format!("user {} may call it", facts.broker.api.user)),
        // A worker does not need the API; plan, apply and verify do.
        Err(gap) if gap.denied => Draft::warning(gap.reason.clone(), gap.fix.clone()),
        Err(gap) => Draft::error(gap.reason.clone(), gap.fix.clone()),
    }
}

/// Is `overdue` tested with this version?
pub(crate) fn version(facts: &Facts) -> Draft {
    known(&facts.broker.api.known_overview(), |overview| judge_version(&overview.version))
}

/// Older versions than 4.0 are not supported: they lose a parked message that is read and requeued.
fn judge_version(version: &str) -> Draft {
    let mut numbers = version.split('.').map(|part| part.parse::<u16>().ok());
    let (Some(Some(major)), Some(Some(minor))) = (numbers.next(), numbers.next()) else {
        return Draft::warning(
            format!("RabbitMQ {version} is not a version that overdue knows"),
            "use RabbitMQ 4.0 or later",
        );
    };
    if (major, minor) > TESTED.1.series() {
        return Draft::note(
            format!("RabbitMQ {version}: overdue is tested up to {}", TESTED.1),
            "nothing, if your tests pass with it; see docs/which-strategy.md",
        );
    }
    if major >= 4 {
        return Draft::ok(format!("RabbitMQ {version}"));
    }
    let fix = if (major, minor) == (3, 13) { "" } else { ", through 3.13" };
    Draft::error(
        format!("RabbitMQ {version} is too old: parked messages can be lost before 4.0"),
        format!("upgrade to RabbitMQ 4{fix}"),
    )
}

/// Are the stable feature flags enabled?
pub(crate) fn feature_flags(facts: &Facts) -> Draft {
    known(&facts.broker.api.feature_flags_off, |off| judge_feature_flags(off))
}

/// The next version refuses to start if a stable feature flag is disabled.
fn judge_feature_flags(off: &[String]) -> Draft {
    if off.is_empty() {
        return Draft::ok("every stable one is on");
    }
    Draft::warning(
        format!("{} off: {}; a later version will refuse to start", off.len(), off.join(", ")),
        "rabbitmqctl enable_feature_flag all",
    )
}

/// Are features in use that a later version removes?
pub(crate) fn deprecated_features(facts: &Facts) -> Draft {
    known(&facts.broker.api.deprecated, |used| {
        if used.is_empty() {
            return Draft::ok("none in use");
        }
        Draft::warning(
            format!("in use: {}; overdue uses none of them", used.join(", ")),
            "stop using it before the next upgrade; rabbitmqctl list_deprecated_features --used names it",
        )
    })
}

/// Is the archived delay plugin still enabled? `overdue` needs only the management plugin.
pub(crate) fn plugins(facts: &Facts) -> Draft {
    known(&facts.broker.api.known_overview(), |overview| {
        let needed = Strategy::DelayedExchange.needs_exchange_type();
        let delayed = overview.exchange_types.iter().any(|kind| needed == Some(kind.as_str()));
        let topology = facts.topology.as_ref().ok();
        if let Some(missing) = topology.and_then(|it| judge_shards(it, overview)) {
            return missing;
        }
        let Some(topology) = topology.filter(|it| it.strategy == Strategy::DelayedExchange) else {
            return judge_plugins(delayed, &facts.broker.api.plugins);
        };
        let observed = facts.broker.api.observed.as_ref().ok();
        let held = observed.and_then(|it| it.delayed.get(&topology.delayed_exchange()).copied());
        judge_delayed_exchange(delayed, &overview.version, held)
    })
}

/// If the plugin is disabled while an exchange of its type exists, one dead letter for that exchange stops all dead-lettering of the node.
/// Dead-lettering begins again when the node restarts (seen on 4.3.6).
fn judge_shards(topology: &Topology, overview: &Overview) -> Option<Draft> {
    let sharded = topology.timeouts.iter().find(|timeout| timeout.shards.is_some())?;
    let is_there = overview.exchange_types.iter().any(|kind| kind == CONSISTENT_HASH);
    let missing = format!(
        "RabbitMQ {} runs without {CONSISTENT_HASH_PLUGIN}, which `shards` of timeout {} needs",
        overview.version, sharded.name
    );
    let fix = format!(
        "{ENABLE_CONSISTENT_HASH}; where it was on before, then restart the nodes one by one"
    );
    (!is_there).then(|| Draft::error(missing, fix))
}

/// Listing plugins needs the tag `monitoring`; the exchange types show the important plugin without it.
fn judge_plugins(delayed: bool, enabled: &Probed<Vec<String>>) -> Draft {
    if delayed {
        return Draft::warning(
            "rabbitmq_delayed_message_exchange is on: archived in 2026, and it cannot run on 4.3 and later",
            "bring its exchanges to a topology, then: rabbitmq-plugins disable rabbitmq_delayed_message_exchange",
        );
    }
    match enabled {
        Ok(enabled) => Draft::ok(format!("{}; nothing else is needed", enabled.join(", "))),
        Err(_) => Draft::ok(
            "the management plugin, and nothing else is needed (the list takes the monitoring tag)",
        ),
    }
}

/// Judges the plugin if the topology needs it. `held`: messages in its exchange, if the broker reports them.
fn judge_delayed_exchange(there: bool, version: &str, held: Option<u64>) -> Draft {
    if !there {
        return Draft::error(
            format!(
                "RabbitMQ {version} runs without rabbitmq_delayed_message_exchange, which the topology needs"
            ),
            "enable it (rabbitmq-plugins/README.md), which 4.3 and later cannot, or take another strategy \
             (docs/topology.md)",
        );
    }
    let held = held.map_or_else(
        || "an unknown number of messages (each node counts its own)".to_owned(),
        |held| counted(held, "message"),
    );
    Draft::warning(
        format!(
            "rabbitmq_delayed_message_exchange holds {held} in memory of one node, in one copy; RabbitMQ {version} \
             cannot be upgraded to 4.3 with it"
        ),
        "write strategy = \"ladder\", which needs no plugin, before the upgrade (docs/topology.md)",
    )
}

/// Is there a memory alarm?
pub(crate) fn memory_alarm(facts: &Facts) -> Draft {
    let fix =
        "give the node more memory, or raise vm_memory_high_watermark; publishers are blocked";
    known(&facts.broker.api.alarms, |alarms| judge_alarms(alarms, "memory", fix))
}

/// Is there a disk alarm?
pub(crate) fn disk_alarm(facts: &Facts) -> Draft {
    let fix = "free disk space, or lower disk_free_limit; publishers are blocked";
    known(&facts.broker.api.alarms, |alarms| judge_alarms(alarms, "disk", fix))
}

/// An alarm of any node blocks publishers on all nodes.
fn judge_alarms(alarms: &[Alarm], resource: &str, fix: &str) -> Draft {
    let nodes = alarms.iter().filter(|alarm| alarm.resource.starts_with(resource));
    let nodes: Vec<&str> = nodes.map(|alarm| alarm.node.as_str()).collect();
    if nodes.is_empty() {
        return Draft::ok("none");
    }
    Draft::error(format!("in effect on {}", nodes.join(", ")), fix)
}

/// Do the quorum queues have a leader and enough online members, and does each node lead its share?
pub(crate) fn replicas(facts: &Facts) -> Draft {
    let topology = facts.topology.as_ref().ok();
    let prefix = topology.map(|topology| format!("{}.", topology.name));
    // The broker's tables also have a leader for a queue whose process has ended.
    let without_leader = |queue: &str| {
        facts.verified.iter().flatten().any(|it| {
            it.rule == NO_LEADER
                && it.severity == Severity::Error
                && matches!(&it.subject, Subject::Queue(name) if name == queue)
        })
    };
    known(&facts.broker.api.replicas, |all| {
        let ours = |replicas: &&Replicas| {
            prefix.as_ref().is_none_or(|prefix| replicas.queue.starts_with(prefix))
        };
        let led = |it: &Replicas| Replicas {
            leader: it.leader.clone().filter(|_| !without_leader(&it.queue)),
            ..it.clone()
        };
        let led: Vec<Replicas> = all.iter().filter(ours).map(led).collect();
        let judged = judge_replicas(&led.iter().collect::<Vec<_>>(), facts.broker.api.nodes);
        if judged.severity.is_some_and(|severity| severity > Severity::Note) {
            return judged;
        }
        let observed = facts.broker.api.observed.as_ref().ok();
        let uneven = topology.zip(observed).and_then(|(topology, observed)| {
            let objects = &observed.objects;
            let of = |is: fn(Kind<'_>) -> bool| {
                let queue = |it: &&Replicas| objects.queues.get(&it.queue);
                let role = |it: &&Replicas| role(topology, objects, queue(it)?);
                all.iter().filter(|it| role(it).is_some_and(is)).collect::<Vec<_>>()
            };
            let levels = of(|kind| matches!(kind, Kind::Delay(_)));
            let business = of(|kind| kind == Kind::Business);
            judge_leaders(&[("delay queues", levels), ("business queues", business)])
        });
        uneven.unwrap_or(judged)
    })
}

/// A node that leads more than one and a half times its share of the queues does most of their work. `None` if each kind of queue is
/// spread, or if there is a single node.
fn judge_leaders(kinds: &[(&str, Vec<&Replicas>)]) -> Option<Draft> {
    let members = kinds.iter().flat_map(|(_, queues)| queues).flat_map(|queue| &queue.members);
    let nodes: BTreeSet<&String> = members.collect();
    let led = |queues: &[&Replicas]| -> Vec<usize> {
        let by =
            |node: &&String| queues.iter().filter(|it| it.leader.as_ref() == Some(*node)).count();
        nodes.iter().map(by).collect()
    };
    let is_uneven = |led: &[usize]| {
        let (all, most) = (led.iter().sum::<usize>(), led.iter().max().copied().unwrap_or(0));
        // In fractions: 2 × most > 3 × share, and at least a whole queue more. Fewer queues than nodes cannot be spread over all.
        let nodes = led.len();
        all >= nodes && 2 * most * nodes > 3 * all && most * nodes >= all + nodes
    };
    let uneven = kinds.iter().filter_map(|(kind, queues)| {
        let led = led(queues);
        let counts = nodes.iter().zip(&led).map(|(node, count)| format!("{node} {count}"));
        let counts: Vec<String> = counts.collect();
        is_uneven(&led).then(|| format!("of {} {kind}: {}", queues.len(), counts.join(", ")))
    });
    let uneven: Vec<String> = uneven.collect();
    (!uneven.is_empty()).then(|| {
        Draft::warning(
            format!("leaders are not spread over the nodes; {}", uneven.join("; ")),
            "rabbitmq-queues rebalance quorum; and for new queues queue_leader_locator = balanced in rabbitmq.conf \
             (docs/doctor.md)",
        )
    })
}

/// A queue without a leader does not work. A queue without a majority soon loses its leader, and one of two copies is no majority. If the
/// cluster has no other node, the only fix is another node. `nodes`: size of the cluster; `None` if unknown, then nodes with a copy of any
/// queue count.
fn judge_replicas(queues: &[&Replicas], nodes: Option<usize>) -> Draft {
    let leads = |q: &&&Replicas| q.leader.as_ref().is_some_and(|leader| q.online.contains(leader));
    let headless: Vec<&str> =
        queues.iter().filter(|q| !leads(q)).map(|q| q.queue.as_str()).collect();
    if !headless.is_empty() {
        return Draft::error(
            format!("no leader: {}", headless.join(", ")),
            "bring the missing nodes back; which they are: rabbitmqctl cluster_status; where none is missing: \
             overdue verify",
        );
    }
    let short: Vec<&str> = queues
        .iter()
        .filter(|q| q.online.len() < q.members.len())
        .map(|q| q.queue.as_str())
        .collect();
    if !short.is_empty() {
        return Draft::warning(
            format!("a member is offline: {}", short.join(", ")),
            "bring the missing nodes back before another one goes; which they are: rabbitmqctl cluster_status",
        );
    }
    let known: BTreeSet<&String> = queues.iter().flat_map(|q| &q.members).collect();
    let nodes = nodes.unwrap_or(known.len());
    let few = |copies: usize| copies < 3 && nodes > copies;
    let few: Vec<&str> =
        queues.iter().filter(|q| few(q.members.len())).map(|q| q.queue.as_str()).collect();
    if !few.is_empty() {
        return Draft::warning(
            format!("fewer than three copies, so it stops with a node of it: {}", few.join(", ")),
            "on each node that is to have a copy more, in a cluster of three or more: rabbitmq-queues grow NODE all \
             (docs/doctor.md)",
        );
    }
    if queues.iter().any(|q| q.members.len() == 2) {
        return Draft::note(
            "two copies of each queue, on two nodes: all of them stop with either node",
            "a third node, and on it: rabbitmq-queues grow NODE all (docs/doctor.md)",
        );
    }
    let copies = queues.iter().map(|q| q.members.len()).min().unwrap_or_default();
    let counted = counted(queues.len(), "quorum queue");
    match (queues.len(), copies) {
        (0, _) => Draft::ok("no quorum queue yet"),
        (1, 1) => Draft::ok(format!("{counted}, on one node only")),
        (_, 1) => Draft::ok(format!("{counted}, each on one node only")),
        (1, _) => Draft::ok(format!("{counted}, {copies} copies, all online")),
        (_, _) => Draft::ok(format!("{counted}, {copies} copies each, all online")),
    }
}
