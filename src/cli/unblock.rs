//! `overdue unblock`: has the broker try the dead letters of a queue again at once, not within three minutes.

use std::{
    collections::BTreeMap,
    fmt,
    time::{Duration, Instant},
};

use clap::Args;
use serde::Serialize;
use serde_json::Value;

use super::{
    exit::{self, Failure},
    output::{Confirm, Output},
    setup,
};
use crate::{
    administration::{Management, ManagementError},
    config::Settings,
    objects::Queue,
    oncall::actions::{NewAction, Via, record_where_possible},
    plan::{
        own_queues::queues_of,
        snapshot::{QueueStats, Snapshot},
    },
    text::{counted, quote},
    topology::Topology,
    verify::dead_letters::blockers,
};

/// How often the counts are looked at meanwhile.
const LOOK_EVERY: Duration = Duration::from_millis(500);

/// Free the dead letters of a queue, once what held them is fixed; says what it would do, and asks
#[derive(Debug, Args)]
pub(super) struct Unblock {
    /// The queue that holds them, e.g. orders.delay.30m
    queue: String,
    #[command(flatten)]
    confirm: Confirm,
    #[command(flatten)]
    output: Output,
}

/// What became of the dead letters.
#[derive(Serialize)]
struct Unblocked<'a> {
    version: u32,
    queue: &'a str,
    held: u64,
    freed: u64,
    #[serde(skip)]
    age: Duration,
}

impl fmt::Display for Unblocked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { queue, held, freed, age, .. } = self;
        match held {
            0 => write!(f, "{queue} holds no dead letters (the count is up to {age:?} old)"),
            _ => write!(f, "freed {freed} of {held} dead letters of {queue}"),
        }
    }
}

impl Unblock {
    pub(super) async fn run(self, settings: &Settings) -> Result<(), Failure> {
        let (topology, management) = setup::broker(settings)?;
        let observed = management.observe().await?;
        let queue = self.ours(&topology, &observed)?;
        let (numbers, held) = self.numbers(&management).await?;
        let name = format!("{}.unblock.{}", topology.name, self.queue);
        let (queue_name, age) = (&self.queue, management.statistics_interval().oldest_count());
        let answer = |freed| {
            self.output.print(&Unblocked { version: 1, queue: queue_name, held, freed, age })
        };
        if held == 0 && numbers.policy.as_deref() != Some(&name) {
            return answer(0);
        }
        self.output.preview(format!(
            "{queue_name} holds {}; policy {name} would be set for it and deleted again, which makes the broker try them \
             at once",
            counted(held, "dead letter")
        ))?;
        self.confirm.ask(&format!("do this at {}?", management.address()))?;
        nudge(&management, &name, queue, &numbers).await?;
        let left = self.left(&management, held).await?;
        let action = NewAction {
            via: Via::Cli,
            action: "unblock",
            what: queue_name.clone(),
            count: Some(held.saturating_sub(left)),
            why: None,
            orders: &[],
        };
        record_where_possible(settings, action).await;
        answer(held.saturating_sub(left))?;
        if left == 0 {
            return Ok(());
        }
        let stats = management.stats_and_policies().await?;
        let observed = management.observe().await?;
        Err(Failure::failed(self.why(&topology, &observed, &stats, queue, left)))
    }

    fn ours<'a>(&self, topology: &Topology, observed: &'a Snapshot) -> Result<&'a Queue, Failure> {
        let ours = queues_of(topology, &observed.objects);
        let queue = observed.objects.queues.get(&self.queue);
        let queue = queue.filter(|queue| ours.contains(&queue.name)).ok_or_else(|| {
            Failure::failed(format!(
                "queue {} is not one of topology {}, so nothing was done; its queues are {}",
                self.queue,
                topology.name,
                ours.join(", ")
            ))
        })?;
        if queue.kind == "quorum" {
            return Ok(queue);
        }
        Err(Failure::failed(format!(
            "queue {} is {}: it dead-letters at most once, so it never holds dead letters",
            queue.name, queue.kind
        )))
    }

    /// What the broker says of the queue, once it does: of a new one it has no numbers for some seconds, and not known is
    /// not none.
    async fn numbers(&self, management: &Management) -> Result<(QueueStats, u64), Failure> {
        let deadline = Instant::now() + management.statistics_interval().counts_settle();
        loop {
            let mut stats = management.stats_and_policies().await?;
            let numbers = stats.remove(&self.queue).unwrap_or_default();
            if let Some(held) = numbers.dead_letters() {
                return Ok((numbers, held));
            }
            if Instant::now() >= deadline {
                return Err(Failure::failed(format!(
                    "the broker has no numbers of queue {}: it has no leader now, or its statistics are off; nothing \
                     was done: see overdue doctor, then run this again",
                    self.queue
                )));
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    /// Dead letters that are still there when the counts have been renewed since the last of them left.
    async fn left(&self, management: &Management, held: u64) -> Result<u64, ManagementError> {
        let settled = management.statistics_interval().counts_settle();
        let (mut least, mut deadline) = (held, Instant::now() + settled);
        loop {
            let numbers = management.stats_of(&self.queue).await?;
            // Not known is not none: the queue may have no leader for a moment.
            let left = numbers.as_ref().and_then(QueueStats::dead_letters);
            if let Some(left) = left.filter(|left| *left < least) {
                (least, deadline) = (left, Instant::now() + settled);
            }
            if least == 0 || Instant::now() >= deadline {
                return Ok(least);
            }
            tokio::time::sleep(LOOK_EVERY).await;
        }
    }

    fn why(
        &self,
        topology: &Topology,
        observed: &Snapshot,
        stats: &BTreeMap<String, QueueStats>,
        queue: &Queue,
        left: u64,
    ) -> String {
        let blocked = blockers(topology, observed, stats, queue);
        if blocked.is_empty() {
            return format!(
                "{left} are still held by {}, and nothing blocks them any more: what a full queue has refused is tried \
                 again three minutes after its last try, whatever is done",
                self.queue
            );
        }
        let list: Vec<String> = blocked.iter().map(ToString::to_string).collect();
        format!("{left} are still held by {}: {}", self.queue, list.join("; "))
    }
}

/// One policy applies to a queue and nothing is merged, so ours has to set what applies now: that may be one of
/// an unblock that was interrupted.
async fn nudge(
    management: &Management,
    name: &str,
    queue: &Queue,
    numbers: &QueueStats,
) -> Result<(), Failure> {
    let policies = management.policies().await?;
    let definition = match &numbers.policy {
        Some(applies) => {
            let policy = policies.iter().find(|policy| policy.name == *applies);
            let gone = || {
                Failure::failed(format!(
                    "policy {applies} was deleted a moment ago; run this command again"
                ))
            };
            policy.ok_or_else(gone)?.definition.clone()
        }
        None => unchanged(queue)?,
    };
    let others = policies.iter().filter(|policy| policy.name != name);
    let highest = others.map(|policy| policy.priority).max().unwrap_or_default().max(0);
    let priority = i32::try_from(highest).ok().and_then(|highest| highest.checked_add(1));
    let priority = priority.ok_or_else(|| {
        Failure::failed(
            "a policy of this virtual host has the highest possible priority; lower it first",
        )
    })?;
    let nudged = management.nudge(name, &queue.name, &definition, priority).await;
    nudged.map_err(|error| not_nudged(error, management.virtual_host(), name))
}

fn not_nudged(error: ManagementError, vhost: &str, policy: &str) -> Failure {
    if let ManagementError::NotPermitted { user, .. } = &error {
        let text = format!(
            "user `{user}` may not set policies, which is how the broker is made to try again: rabbitmqctl \
             set_user_tags {} policymaker",
            quote(user)
        );
        return Failure { code: exit::NOT_PERMITTED, text };
    }
    let Failure { code, text } = Failure::from(error);
    let (vhost, name) = (quote(vhost), quote(policy));
    let text =
        format!("{text}; if {policy} is still there: rabbitmqctl clear_policy -p {vhost} {name}");
    Failure { code, text }
}

/// A definition that says again what the queue's own arguments say.
fn unchanged(queue: &Queue) -> Result<BTreeMap<String, Value>, Failure> {
    let same = ["overflow", "message-ttl", "delivery-limit"].into_iter().find_map(|key| {
        let value = queue.arguments.get(&format!("x-{key}"))?;
        Some(BTreeMap::from([(key.to_owned(), value.into())]))
    });
    same.ok_or_else(|| {
        Failure::failed(format!(
            "queue {} has none of the arguments it should have: run overdue apply first",
            queue.name
        ))
    })
}
