//! The steps of a change: observe and plan, then carry out. Only [`change`](super::change) carries out, under the lock.

mod deletion;

use std::{
    collections::{BTreeMap, BTreeSet},
    fmt,
};

use deletion::Deletion;

use super::{LockLost, Management, ManagementError, TopologyLock};
use crate::{
    diagnostic::Target,
    messaging::{ConnectError, consume::ConsumeError, passive::Questions},
    objects::{
        mark::mark,
        shard::{CONSISTENT_HASH, CONSISTENT_HASH_PLUGIN, ENABLE_CONSISTENT_HASH},
    },
    plan::{
        Change, Note, Plan, Refusal, Step,
        diff::diff,
        removal,
        retired_exchange::is_needed,
        snapshot::{Clock, Snapshot},
    },
    topology::{Topology, check::BrokerVersion},
    verify::policies,
};

/// From this series on the plugin of delayed messages cannot run: its last release is for the one before.
const WITHOUT_PLUGIN: BrokerVersion = BrokerVersion::new(4, 3);

/// Why a plan was not carried out.
#[derive(Debug, thiserror::Error)]
pub enum ApplyError {
    /// A step failed before any was done; nothing was changed.
    #[error(transparent)]
    First(#[from] StepError),
    /// The plan is refused; nothing was changed.
    #[error("the plan is refused, nothing was changed\n{0}")]
    Refused(Box<Plan>),
    /// Some steps are done. The topology works as it is; applying again goes on from here.
    #[error("{done} of {all} steps are done; run `overdue apply` again to continue")]
    Partly {
        /// Steps that are done.
        done: usize,
        /// Steps of the plan.
        all: usize,
        /// Why the next one failed.
        source: Box<StepError>,
    },
}

/// What there is, and what it takes to get to `topology`; changes nothing.
///
/// # Errors
/// The broker cannot be read.
pub async fn plan(
    management: &Management,
    topology: &Topology,
    discard: &BTreeSet<String>,
) -> Result<(Plan, Snapshot), ManagementError> {
    let (mut plan, observed) = plan_within_limits(management, topology, discard).await?;
    let target = Target { topology: &topology.name, virtual_host: &observed.virtual_host };
    let policies = policies::foreseen(topology, &observed, &plan);
    plan.notes.extend(policies.iter().map(|found| found.rendered(&target)).map(|found| {
        Note::Policy {
            policy: found.subject.to_string(),
            message: found.message,
            reason: found.reason.unwrap_or_default(),
            fix: found.fix.unwrap_or_default(),
        }
    }));
    let created = plan.steps.iter().filter(|it| matches!(it.change, Change::CreateQueue(_)));
    let lock = topology.lock_queue();
    let existing = observed.objects.queues.keys().filter(|queue| **queue != lock);
    let (existing, created) = (existing.count() as u64, created.count() as u64);
    // Half a topology would be left. The lock is a queue as well.
    if created > 0
        && let Some(limit) = management.queue_limit().await?
        && existing + created + 1 > limit
    {
        plan.refusals.push(Refusal::QueueLimit { limit, existing, created });
    }
    Ok((plan, observed))
}

async fn plan_within_limits(
    management: &Management,
    topology: &Topology,
    discard: &BTreeSet<String>,
) -> Result<(Plan, Snapshot), ManagementError> {
    has_exchange_types(management, topology).await?;
    let mut observed = management.observe().await?;
    let plan = diff(topology, &observed, discard);
    let leaving = plan.leaving();
    if leaving.is_empty() {
        return Ok((plan, observed));
    }
    if plan.depends_on_time() {
        let stays = management.surely_settle() + management.address().timing.removed_timeout;
        let now_s = management.now_s().await?;
        observed.clock = Some(Clock { now_s, stays_s: stays.as_secs() });
    }
    let consumed = ask(management, leaving.clone(), &mut observed).await;
    for queue in leaving.into_iter().filter(|queue| consumed.get(queue) != Some(&0)) {
        let consumers = management.foreign_consumers(&queue).await?;
        if consumers > 0 {
            observed.foreign_consumers.insert(queue, consumers);
        }
    }
    Ok((diff(topology, &observed, discard), observed))
}

/// Fails where the topology needs an exchange type of a plugin that the broker does not have.
pub(crate) async fn has_exchange_types(
    management: &Management,
    topology: &Topology,
) -> Result<(), ManagementError> {
    if needed_type(topology).is_none() {
        return Ok(());
    }
    let overview = management.overview().await?;
    let types = management.exchange_types(&overview).await;
    let missing =
        missing_type(topology, &overview.rabbitmq_version, management.displayed(), &types);
    missing.map_or(Ok(()), Err)
}

/// The exchange type of a plugin that the topology needs.
fn needed_type(topology: &Topology) -> Option<&'static str> {
    let is_sharded = topology.timeouts.iter().any(|timeout| timeout.shards.is_some());
    let strategy = topology.strategy.needs_exchange_type();
    strategy.or_else(|| is_sharded.then_some(CONSISTENT_HASH))
}

/// Why a broker with these exchange types cannot have the topology.
fn missing_type(
    topology: &Topology,
    version: &str,
    address: impl fmt::Display,
    types: &[String],
) -> Option<ManagementError> {
    let kind = needed_type(topology).filter(|kind| types.iter().all(|there| there != kind))?;
    let broker = format!("RabbitMQ {version} at {address}");
    let sharded = topology.timeouts.iter().find(|timeout| timeout.shards.is_some());
    if let Some(timeout) = sharded.filter(|_| kind == CONSISTENT_HASH) {
        let needed_by = format!("`shards` of timeout {}", timeout.name);
        let (plugin, fix) = (CONSISTENT_HASH_PLUGIN, ENABLE_CONSISTENT_HASH);
        return Some(ManagementError::NoExchangeType { broker, kind, needed_by, plugin, fix });
    }
    let cannot =
        version.parse().is_ok_and(|it: BrokerVersion| it.series() >= WITHOUT_PLUGIN.series());
    let fix = if cannot {
        "that plugin was archived in January 2026 and cannot run on RabbitMQ 4.3 and later: write strategy = \
             \"levels\" with the delays that are needed, or \"ladder\" for any delay, which need no plugin \
             (docs/leaving-the-delayed-message-plugin.md)"
    } else {
        "enable that plugin (rabbitmq-plugins/README.md), or write strategy = \"levels\" with the delays that are \
             needed, or \"ladder\" for any delay, which need no plugin (docs/topology.md)"
    };
    Some(ManagementError::NoExchangeType {
        broker,
        kind,
        needed_by: format!("strategy `{}`", topology.strategy.as_str()),
        plugin: "rabbitmq_delayed_message_exchange",
        fix,
    })
}

/// What there is of `topology`, and what it takes to remove it, with what waits if `discard` is set; changes nothing.
pub(super) async fn plan_removal(
    management: &Management,
    topology: &Topology,
    discard: bool,
) -> Result<(Plan, Snapshot), ManagementError> {
    let mut observed = management.observe().await?;
    let queues = removal::queues(topology, &observed.objects).map(|queue| queue.name.clone());
    let queues: BTreeSet<String> = queues.collect();
    // Those of the statistics are late, also after a worker has stopped.
    for (queue, consumers) in ask(management, queues, &mut observed).await {
        match consumers {
            0 => drop(observed.consumed.remove(&queue)),
            _ => drop(observed.consumed.insert(queue)),
        }
    }
    Ok((removal::removal(topology, &observed, discard), observed))
}

/// The statistics are late; what has come in since, and how many consume now, is asked of the queues themselves. A plan
/// without it is as good as the statistics are, and no queue is deleted for it: nor for the silence of one.
async fn ask(
    management: &Management,
    queues: BTreeSet<String>,
    observed: &mut Snapshot,
) -> BTreeMap<String, u32> {
    let mut consumed = BTreeMap::new();
    let Ok(link) = management.link(COUNTING).await else { return consumed };
    let mut questions = Questions::new(&link);
    for queue in queues {
        if let Ok(Some(counts)) = questions.own_counts(&queue).await
            && counts.are_its_own
        {
            observed.at_least(&queue, counts.ready);
            consumed.insert(queue, counts.consumers);
        }
    }
    link.close().await;
    consumed
}

/// Carries a plan out front to back, each step only while the lock is held; `on_step` is called after each of them.
pub(super) async fn carry_out(
    management: &Management,
    topology: &Topology,
    lock: &TopologyLock,
    plan: &Plan,
    mut on_step: impl FnMut(&Step, StepResult),
) -> Result<(), ApplyError> {
    if !plan.refusals.is_empty() {
        return Err(ApplyError::Refused(Box::new(plan.clone())));
    }
    let mut steps =
        Steps { management, topology, lock, plan, deletion: None, all_done: true, seen: None };
    let mut done = 0;
    for step in &plan.steps {
        let result = steps.carry_out(step).await.map_err(|source| match done {
            0 => ApplyError::First(source),
            _ => ApplyError::Partly { done, all: plan.steps.len(), source: Box::new(source) },
        })?;
        let is_done = result == StepResult::Done;
        steps.all_done &= is_done;
        done += usize::from(is_done);
        on_step(step, result);
    }
    if let Some(deletion) = steps.deletion {
        deletion.end().await;
    }
    Ok(())
}

struct Steps<'a> {
    management: &'a Management,
    topology: &'a Topology,
    lock: &'a TopologyLock,
    plan: &'a Plan,
    /// Starts with the first deleted queue; nothing is unbound after it.
    deletion: Option<Deletion<'a>>,
    all_done: bool,
    /// What there was before the first of the exchanges that are deleted one right after the other, without those.
    seen: Option<Snapshot>,
}

impl Steps<'_> {
    async fn carry_out(&mut self, step: &Step) -> Result<StepResult, StepError> {
        self.lock.check().await?;
        self.seen =
            self.seen.take().filter(|_| matches!(step.change, Change::DeleteExchange { .. }));
        match &step.change {
            Change::DeleteQueue { queue, lost } => {
                let begin = || Deletion::begin(self.management, self.lock, self.plan);
                self.deletion.get_or_insert_with(begin).delete(queue, *lost).await
            }
            // Without it nothing says whose the rest is.
            Change::DeleteExchange { exchange }
                if !self.all_done && *exchange == self.topology.mark_exchange() =>
            {
                Ok(StepResult::Needed)
            }
            // What leads to it may have been kept, and publishers of another version use it until it is gone.
            Change::DeleteExchange { exchange } if self.is_needed(exchange).await? => {
                Ok(StepResult::Needed)
            }
            change => self.make(change).await,
        }
    }

    async fn is_needed(&mut self, exchange: &str) -> Result<bool, StepError> {
        let seen = match self.seen.take() {
            Some(seen) => seen,
            None => self.management.observe().await?,
        };
        Ok(is_needed(self.topology, self.seen.insert(seen), exchange))
    }

    async fn make(&mut self, change: &Change) -> Result<StepResult, StepError> {
        self.management.apply(change).await?;
        // Stopped in between, it is exactly as we make it, and a later apply adopts it.
        let mark = match change {
            Change::CreateQueue(queue) => mark(&self.topology.name, &queue.name),
            Change::CreateExchange(exchange) => self.topology.exchange_mark(&exchange.name),
            _ => None,
        };
        if let Some(mark) = mark {
            self.management.apply(&Change::Bind(mark)).await?;
        }
        if let (Change::DeleteExchange { exchange }, Some(seen)) = (change, &mut self.seen) {
            seen.objects.exchanges.remove(exchange);
            seen.objects.bindings.retain(|it| it.source != *exchange);
        }
        Ok(StepResult::Done)
    }
}

/// The connection that asks queues what is in them.
pub(super) const COUNTING: &str = "overdue: counting what waits";

/// Why a step failed.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// Reading or changing the broker.
    #[error(transparent)]
    Management(#[from] ManagementError),
    /// No connection over which a queue could be asked what is in it.
    #[error(transparent)]
    Connect(#[from] ConnectError),
    /// A queue did not say what is in it.
    #[error("it is not known whether the queue may be deleted")]
    Count(#[from] ConsumeError),
    /// Somebody else may be changing the topology by now.
    #[error(transparent)]
    LockLost(#[from] LockLost),
}

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StepResult {
    /// It is carried out.
    Done,
    /// The queue holds more than the plan gives up: a later apply deletes it.
    NotEmpty,
    /// The broker does not count what is in the queue: a later apply deletes it.
    NotCounted,
    /// Somebody has bound the queue again: it is in use.
    Bound,
    /// Somebody else consumes from the queue by now.
    Consumed,
    /// Messages may still take this way: a queue that leads here was kept, or the exchange is in use.
    Needed,
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A broker of the tests has the plugin; this one has it on no node, or not on each.
    #[test]
    fn shards_are_refused_without_the_plugin() {
        let topology = |shards: &str| {
            let text = "name = \"orders\"\ndelay.levels = [\"1s\"]\n[[timeout]]\nname = \"unpaid\"\nafter = \"1s\"\n";
            Topology::parse(&format!("{text}{shards}")).unwrap()
        };
        let said = |shards: &str, kind: &str| {
            let types = ["topic", kind].map(str::to_owned);
            missing_type(&topology(shards), "4.3.6", "mq.example", &types).map(|it| it.to_string())
        };
        assert_eq!(said("", "fanout"), None);
        assert_eq!(said("shards = 2", CONSISTENT_HASH), None);
        let refused = said("shards = 2", "x-modulus-hash").unwrap();
        assert!(
            refused.starts_with(
                "RabbitMQ 4.3.6 at mq.example has no exchange type `x-consistent-hash`, which `shards` of timeout unpaid \
                 needs; it comes with the plugin rabbitmq_consistent_hash_exchange: "
            ),
            "{refused}"
        );
        let enable = "rabbitmq-plugins enable rabbitmq_consistent_hash_exchange, on every node";
        assert!(refused.contains(enable), "{refused}");
    }
}
