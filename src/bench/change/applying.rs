//! Operations: the change is planned, carried out, and waited for until the old queues are gone.

use std::{
    cell::Cell,
    time::{Duration, Instant},
};

use tokio::sync::watch;

use super::{
    deadline::Deadline, error::MeasureError, measured::AppliedChange, message_log::MessageLog,
    phase::ChangePhase, publishing::Publishing, scenario::Scenario, shared_log::SharedLog,
    size::ChangeSize,
};
use crate::{
    broker::{self, ChangeEvent, Management, TopologyChange, apply::ApplyError},
    plan::{
        Change, Plan, Refusal, Step, count_of,
        drain_wait::{DrainWait, GaveUp, Next},
        snapshot::Snapshot,
    },
    statistics::seconds,
    topology::Topology,
};

/// Between two reports of how far the draining is.
const REPORT_EVERY: Duration = Duration::from_secs(10);

pub(super) struct Applying<'a, OnStep> {
    pub(super) management: &'a Management,
    pub(super) scenario: &'a Scenario,
    pub(super) size: &'a ChangeSize,
    pub(super) log: &'a SharedLog,
    pub(super) on_step: &'a OnStep,
}

impl<OnStep: Fn(&str)> Applying<'_, OnStep> {
    /// Declares what the change begins with, and waits until the broker has counted every queue once, as it has
    /// in a topology that is in use: a count that is too old is worse than none.
    pub(super) async fn before(&self) -> Result<(), MeasureError> {
        self.carry_out(&self.scenario.before, |_| {}, |_| {}).await?;
        let deadline = Deadline::new(self.size, self.scenario);
        loop {
            let observed = self.management.observe().await?;
            let queues = self.scenario.before.objects().queues;
            let uncounted: Vec<String> =
                queues.into_keys().filter(|queue| observed.messages_in(queue).is_none()).collect();
            if uncounted.is_empty() {
                return Ok(());
            }
            deadline.wait(|| format!("{} to be counted", uncounted.join(", "))).await?;
        }
    }

    async fn plan(&self, topology: &Topology) -> Result<(Plan, Snapshot), MeasureError> {
        Ok(TopologyChange::new(self.management, topology).plan().await?)
    }

    /// Makes a change as `overdue apply` does.
    async fn carry_out(
        &self,
        topology: &Topology,
        on_plan: impl FnOnce(&Plan),
        mut on_step: impl FnMut(&Step),
    ) -> Result<Plan, MeasureError> {
        let decide = |plan: Plan, _: &Snapshot| {
            on_plan(&plan);
            Ok(plan)
        };
        let on_event = |event: ChangeEvent<'_>| match event {
            ChangeEvent::WaitsForLock => {
                (self.on_step)("another overdue is changing this topology: waiting");
            }
            ChangeEvent::Step(step, _) => on_step(step),
        };
        TopologyChange::new(self.management, topology).make(decide, on_event).await
    }

    /// Where a timeout is to be removed: whether that is refused, and changes nothing, while messages are in its
    /// queue. Then lets them be consumed.
    pub(super) async fn refused(
        &self,
        publishing: &Publishing<'_>,
        release: &watch::Sender<Option<String>>,
    ) -> Result<Option<bool>, MeasureError> {
        let Some(removed) = &self.scenario.removed else { return Ok(None) };
        let count = (self.size.messages / 20).clamp(10, 1_000);
        (self.on_step)(&format!("removing a timeout with {count} messages in its queue"));
        publishing.many(&removed.route, count).await?;
        let deadline = Deadline::new(self.size, self.scenario);
        let occupied = |plan: &Plan| {
            plan.refusals.iter().any(|refusal| {
                matches!(refusal, Refusal::Occupied { queue, messages }
                         if *queue == removed.queue && *messages == u64::try_from(count).ok())
            })
        };
        let before = loop {
            let (plan, observed) = self.plan(&self.scenario.after).await?;
            if occupied(&plan) {
                break observed;
            }
            deadline.wait(|| format!("{} to be counted: {plan}", removed.queue)).await?;
        };
        let carried = self.carry_out(&self.scenario.after, |_| {}, |_| {}).await;
        let refused = matches!(
            carried,
            Err(MeasureError::Change(broker::ChangeError::Apply(ApplyError::Refused(_))))
        );
        let ours = |snapshot: &Snapshot| snapshot.relevant_to(&self.scenario.before);
        let kept = ours(&self.management.observe().await?) == ours(&before);
        release.send_replace(None);
        // A count that is not there yet may still come, after the messages have gone.
        let mut free_since = None;
        loop {
            let (plan, _) = self.plan(&self.scenario.after).await?;
            if !plan.refusals.is_empty() {
                free_since = None;
            } else if free_since.get_or_insert_with(Instant::now).elapsed() >= self.counts_settle()
            {
                return Ok(Some(refused && kept));
            }
            deadline.wait(|| format!("{} to drain: {plan}", removed.queue)).await?;
        }
    }

    /// Makes the change, and waits until what it retired is gone.
    pub(super) async fn change(
        &self,
        phases: watch::Sender<ChangePhase>,
    ) -> Result<AppliedChange, MeasureError> {
        let deadline = Deadline::new(self.size, self.scenario);
        self.log.with(MessageLog::change_begins);
        let is_unbind = |step: &Step| matches!(step.change, Change::Unbind(_));
        let (unbinds, leaves) = (Cell::new(0), Cell::new(false));
        let planned = |plan: &Plan| {
            (self.on_step)(&format!("applying: {}", plan.summary()));
            unbinds.set(plan.steps.iter().filter(|step| is_unbind(step)).count());
            leaves.set(plan.steps.iter().any(|step| matches!(step.change, Change::Leave(_))));
        };
        let mut switched = None;
        let done = |step: &Step| {
            unbinds.set(unbinds.get() - usize::from(is_unbind(step)));
            if unbinds.get() == 0 && !leaves.get() && switched.is_none() {
                switched = Some(deadline.since.elapsed());
                phases.send_replace(ChangePhase::Changed);
            }
        };
        let plan = self.carry_out(&self.scenario.after, planned, done).await?;
        let applied = deadline.since.elapsed();
        let next = if leaves.get() { ChangePhase::Leaving } else { ChangePhase::Changed };
        phases.send_replace(next);
        self.drain(&deadline, &phases).await?;
        let gone = deadline.since.elapsed();
        phases.send_replace(ChangePhase::Gone);
        Ok(AppliedChange {
            plan: plan.summary(),
            steps: plan.steps.len(),
            switched_s: seconds(switched.unwrap_or(applied)),
            applied_s: seconds(applied),
            old_queues_gone_s: seconds(gone),
        })
    }

    /// As `overdue apply --wait`; the old parking lot drains too, because it is consumed here.
    async fn drain(
        &self,
        deadline: &Deadline,
        phases: &watch::Sender<ChangePhase>,
    ) -> Result<(), MeasureError> {
        let mut waiting = DrainWait::new(None, self.management.statistics_interval());
        let mut reported = Instant::now();
        loop {
            let (plan, _) = self.plan(&self.scenario.after).await?;
            match waiting.next(&plan, deadline.since.elapsed()) {
                Next::Done if plan.draining.is_empty() => return Ok(()),
                Next::GiveUp(gave_up @ GaveUp::Refused(_)) => return Err(gave_up.into()),
                Next::CarryOut => {
                    let unbound = |step: &Step| {
                        if matches!(step.change, Change::Unbind(_)) {
                            phases.send_replace(ChangePhase::Changed);
                        }
                    };
                    self.carry_out(&self.scenario.after, |_| {}, unbound).await?;
                }
                // So many at once may be late: how long is for this benchmark to say.
                Next::Done | Next::Look(_) | Next::GiveUp(_) => {
                    deadline.wait(|| format!("the old queues to drain: {plan}")).await?;
                }
            }
            if reported.elapsed() >= REPORT_EVERY {
                (self.on_step)(&format!("draining: {}", self.progress()));
                reported = Instant::now();
            }
        }
    }

    /// Waits until nothing is in any queue, and nothing has come for so long that the counts must have seen it.
    pub(super) async fn until_all_is_out(&self) -> Result<(), MeasureError> {
        let deadline = Deadline::new(self.size, self.scenario);
        let prefix = format!("{}.", self.scenario.after.name);
        (self.on_step)(&format!("receiving the rest: {}", self.progress()));
        loop {
            let now = self.log.now();
            let last = self.log.with(|log| log.last_event());
            let stats = self.management.queue_stats().await?.into_values();
            let ours = stats.filter(|queue| queue.name.starts_with(&prefix));
            let holding: Vec<String> = ours
                .filter(|queue| queue.messages != Some(0))
                .map(|queue| {
                    let count = count_of(queue.messages);
                    format!("{count} in {}", queue.name)
                })
                .collect();
            if holding.is_empty() && now.saturating_sub(last) >= self.counts_settle() {
                return Ok(());
            }
            let left = || format!("{}; {}", self.progress(), holding.join(", "));
            deadline.wait(left).await?;
        }
    }

    fn counts_settle(&self) -> Duration {
        self.management.statistics_interval().counts_settle()
    }

    fn progress(&self) -> String {
        let (out, all) = self.log.with(|log| (log.out(), log.published()));
        format!("{out} of {all} messages are out")
    }
}
