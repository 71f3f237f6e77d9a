//! Dead letters that are stuck: due messages that no queue has taken.
//!
//! The broker hands dead letters on 32 at a time per queue, unless it is set otherwise. One that cannot go on keeps its slot and is tried
//! again every three minutes; when all slots are held, nothing leaves the queue any more
//! (<https://www.rabbitmq.com/docs/quorum-queues#activating-at-least-once-dead-lettering>).

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use super::{
    blockers::{Blocker, blockers},
    queues::role,
};
use crate::{
    diagnostic::{Diagnostic, Fix, Severity, Subject},
    objects::Queue,
    plan::snapshot::{QueueStats, Snapshot},
    topology::Topology,
};

/// Queues of ours that have dead letters under way. In one reading that is nothing to worry about.
#[must_use]
pub fn suspects(
    topology: &Topology,
    observed: &Snapshot,
    stats: &BTreeMap<String, QueueStats>,
) -> BTreeSet<String> {
    let queues = observed.objects.queues.values();
    queues
        .filter(|queue| {
            role(topology, &observed.objects, queue).is_some() && held(stats, queue) > 0
        })
        .map(|queue| queue.name.clone())
        .collect()
}

/// What has dead letters in both readings. Counts are late, so they have to be so far apart that these are
/// different ones ([`counts_settle`](crate::plan::counts::StatisticsInterval::counts_settle)). `slots`: how many a queue hands
/// on at once.
#[must_use]
pub fn findings(
    topology: &Topology,
    observed: &Snapshot,
    first: &BTreeMap<String, QueueStats>,
    second: &BTreeMap<String, QueueStats>,
    apart: Duration,
    slots: u64,
) -> Vec<Diagnostic> {
    let queues = observed
        .objects
        .queues
        .values()
        .filter(|queue| role(topology, &observed.objects, queue).is_some());
    let found = queues.filter_map(|queue| {
        let (before, now) = (held(first, queue), held(second, queue));
        (before > 0 && now > 0).then(|| {
            let blocked = blockers(topology, observed, second, queue);
            finding(queue, before, now, apart, slots, &blocked)
        })
    });
    found.collect()
}

fn held(stats: &BTreeMap<String, QueueStats>, queue: &Queue) -> u64 {
    stats.get(&queue.name).and_then(QueueStats::dead_letters).unwrap_or_default()
}

fn finding(
    queue: &Queue,
    before: u64,
    now: u64,
    apart: Duration,
    slots: u64,
    blocked: &BTreeSet<Blocker>,
) -> Diagnostic {
    let all_held = before >= slots && now >= slots;
    let severity = match (blocked.is_empty(), all_held) {
        (false, _) => Severity::Error,
        (true, true) => Severity::Warning,
        (true, false) => Severity::Note,
    };
    let reason = if blocked.is_empty() {
        "nothing blocks them any more, or there are more than the broker hands on at once; what was held is tried \
         again within three minutes"
            .to_owned()
    } else {
        let list: Vec<String> = blocked.iter().map(ToString::to_string).collect();
        let rest = if all_held { ". Nothing leaves this queue any more" } else { "" };
        format!("{}{rest}", list.join("; "))
    };
    Diagnostic {
        rule: "stuck-dead-letters",
        severity,
        subject: Subject::Queue(queue.name.clone()),
        message: format!("{} due and not handed on ({apart:?} earlier: {before})", messages(now)),
        reason: Some(reason),
        fix: Some(Fix::Unblock(queue.name.clone())),
    }
}

fn messages(count: u64) -> String {
    if count == 1 { "1 message is".to_owned() } else { format!("{count} messages are") }
}
