//! The state of the broker's nodes: feature flags, plugins, alarms, copies.

use super::facts::{Alarm, Asked, Facts, Replicas, known};
use crate::{diagnostic::Draft, text::counted, topology::strategy::Strategy};

/// Are the stable feature flags on?
pub(crate) fn feature_flags(facts: &Facts) -> Draft {
    known(&facts.broker.api.feature_flags_off, |off| judge_feature_flags(off))
}

/// The next version refuses to start where one is off.
pub fn judge_feature_flags(off: &[String]) -> Draft {
    if off.is_empty() {
        return Draft::ok("every stable one is on");
    }
    Draft::warning(
        format!("{} off: {}; a later version will refuse to start", off.len(), off.join(", ")),
        "rabbitmqctl enable_feature_flag all",
    )
}

/// Does somebody use what a later version removes?
pub(crate) fn deprecated_features(facts: &Facts) -> Draft {
    known(&facts.broker.api.deprecated, |used| {
        if used.is_empty() {
            return Draft::ok("none in use");
        }
        Draft::warning(
            format!("in use: {}; overdue uses none of them", used.join(", ")),
            "rabbitmqctl list_deprecated_features --used; stop using it before the next upgrade",
        )
    })
}

/// Is the archived delay plugin still there? overdue needs none but the management plugin.
pub(crate) fn plugins(facts: &Facts) -> Draft {
    known(&facts.broker.api.known_overview(), |overview| {
        let needed = Strategy::DelayedExchange.needs_exchange_type();
        let delayed = overview.exchange_types.iter().any(|kind| needed == Some(kind.as_str()));
        let topology = facts.topology.as_ref().ok();
        let Some(topology) = topology.filter(|it| it.strategy == Strategy::DelayedExchange) else {
            return judge_plugins(delayed, &facts.broker.api.plugins);
        };
        let observed = facts.broker.api.observed.as_ref().ok();
        let held = observed.and_then(|it| it.delayed.get(&topology.delayed_exchange()).copied());
        judge_delayed_exchange(delayed, &overview.version, held)
    })
}

/// The list of plugins takes the `monitoring` tag; exchange types show the one that matters without it.
pub fn judge_plugins(delayed: bool, enabled: &Asked<Vec<String>>) -> Draft {
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

/// The plugin where the topology needs it. `held` is what its exchange holds, where the broker says so.
pub fn judge_delayed_exchange(there: bool, version: &str, held: Option<u64>) -> Draft {
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

/// Is there enough memory?
pub(crate) fn memory_alarm(facts: &Facts) -> Draft {
    let fix =
        "give the node more memory, or raise vm_memory_high_watermark; publishers are blocked";
    known(&facts.broker.api.alarms, |alarms| judge_alarms(alarms, "memory", fix))
}

/// Is there enough disk space?
pub(crate) fn disk_alarm(facts: &Facts) -> Draft {
    let fix = "free disk space, or lower disk_free_limit; publishers are blocked";
    known(&facts.broker.api.alarms, |alarms| judge_alarms(alarms, "disk", fix))
}

/// Any alarm of any node blocks the publishers of all.
pub fn judge_alarms(alarms: &[Alarm], resource: &str, fix: &str) -> Draft {
    let nodes = alarms.iter().filter(|alarm| alarm.resource.starts_with(resource));
    let nodes: Vec<&str> = nodes.map(|alarm| alarm.node.as_str()).collect();
    if nodes.is_empty() {
        return Draft::ok("none");
    }
    Draft::error(format!("in effect on {}", nodes.join(", ")), fix)
}

/// Do the quorum queues have a leader and all of their members?
pub(crate) fn replicas(facts: &Facts) -> Draft {
    let prefix = facts.topology.as_ref().map(|topology| format!("{}.", topology.name));
    known(&facts.broker.api.replicas, |all| {
        let ours = |replicas: &&Replicas| {
            prefix.as_ref().map_or(true, |prefix| replicas.queue.starts_with(prefix))
        };
        judge_replicas(&all.iter().filter(ours).collect::<Vec<_>>())
    })
}

/// Without a leader a queue does nothing; without a majority it soon has none.
pub fn judge_replicas(queues: &[&Replicas]) -> Draft {
    let leads = |q: &&&Replicas| q.leader.as_ref().is_some_and(|leader| q.online.contains(leader));
    let headless: Vec<&str> =
        queues.iter().filter(|q| !leads(q)).map(|q| q.queue.as_str()).collect();
    if !headless.is_empty() {
        return Draft::error(
            format!("no leader: {}", headless.join(", ")),
            "rabbitmqctl cluster_status; bring the missing nodes back",
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
            "rabbitmqctl cluster_status; bring the missing nodes back before another one goes",
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
