//! Whoever changes a topology, step by step: what `administration/apply` does, with a broker that goes on between any two
//! steps. What decides is the code of the plan itself.

use std::{collections::BTreeMap, time::Duration};

use overdue::internals::{
    plan::{
        Change, CountReports, Fingerprint, Plan, Snapshot, StatisticsInterval, Step, is_needed,
    },
    topology::Topology,
};
use proptest::prelude::TestCaseError;

use super::broker::{Broker, NAME, surely_settle};

/// A known fault that the properties have to find.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fault {
    /// None.
    Sound,
    /// Counts are believed that may be older than the unbinding.
    CountsBelievedAtOnce,
    /// The longest way to a queue is over at once.
    TimeIsOver,
    /// What is taken out of use is unbound before what takes its place is there.
    UnbindsFirst,
    /// Queues and exchanges are taken out of use although a retired queue leads to them.
    ForgetsWhatLeadsThere,
    /// An exchange is deleted without another look at what leads to it.
    DeletesNeededExchanges,
    /// The plan reads whether a queue is bound, and not whether it is empty.
    DeletesUncounted,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Moved {
    /// There is more to do.
    On,
    /// Time has to pass.
    Waits,
    Over,
}

/// A change that goes on.
pub(super) struct Administrator {
    topology: Topology,
    asked: Option<Fingerprint>,
    fault: Fault,
    reading: Option<Snapshot>,
    plan: Plan,
    done: usize,
    all_done: bool,
    seen: Option<Snapshot>,
    /// Since when what is deleted is counted.
    counting_ms: Option<u64>,
    reports: BTreeMap<String, CountReports>,
}

impl Administrator {
    /// Holds the lock from now on, and has read the first part of what there is.
    pub(super) fn begin(
        topology: Topology,
        asked: Option<Fingerprint>,
        fault: Fault,
        broker: &Broker,
    ) -> Self {
        Self {
            topology,
            asked,
            fault,
            reading: Some(broker.observe()),
            plan: Plan::default(),
            done: 0,
            all_done: true,
            seen: None,
            counting_ms: None,
            reports: BTreeMap::new(),
        }
    }

    pub(super) fn go_on(&mut self, broker: &mut Broker) -> Result<Moved, TestCaseError> {
        if let Some(reading) = self.reading.take() {
            let plan = broker.look_closer(&self.topology, reading, self.fault);
            return Ok(self.decide(plan));
        }
        let Some(step) = self.plan.steps.get(self.done).cloned() else { return Ok(Moved::Over) };
        let is_exchange = matches!(step.change, Change::DeleteExchange { .. });
        self.seen = self.seen.take().filter(|_| is_exchange);
        let Some(carried_out) = self.carry_out(&step, broker)? else { return Ok(Moved::Waits) };
        self.all_done &= carried_out;
        self.done += 1;
        Ok(Moved::On)
    }

    /// Carries the plan out if it is the one that was asked for.
    fn decide(&mut self, plan: Plan) -> Moved {
        let Ok(mut plan) = plan.checked(self.asked.as_ref()) else { return Moved::Over };
        if !plan.refusals.is_empty() {
            return Moved::Over;
        }
        if self.fault == Fault::UnbindsFirst {
            plan.steps.sort_by_key(|step| !matches!(step.change, Change::Unbind(_)));
        }
        let deleted = plan.changes().filter_map(|change| match change {
            Change::DeleteQueue { queue, .. } => Some((queue.clone(), CountReports::default())),
            _ => None,
        });
        self.reports = deleted.collect();
        self.plan = plan;
        Moved::On
    }

    /// Whether it is carried out, or left for a later plan; `None` while that is not known.
    fn carry_out(
        &mut self,
        step: &Step,
        broker: &mut Broker,
    ) -> Result<Option<bool>, TestCaseError> {
        match &step.change {
            Change::DeleteQueue { queue, .. } => {
                let Some(deleted) = self.delete(queue, broker) else { return Ok(None) };
                if !deleted {
                    return Ok(Some(false));
                }
            }
            Change::DeleteExchange { exchange }
                if !self.all_done && *exchange == self.topology.mark_exchange() =>
            {
                return Ok(Some(false));
            }
            Change::DeleteExchange { exchange } => {
                let seen = self.seen.get_or_insert_with(|| broker.observe());
                let is_needed = is_needed(&self.topology, seen, exchange);
                let forgets = [Fault::DeletesNeededExchanges, Fault::ForgetsWhatLeadsThere];
                if is_needed && !forgets.contains(&self.fault) {
                    return Ok(Some(false));
                }
            }
            _ => {}
        }
        broker.change(&step.change)?;
        if let (Change::DeleteExchange { exchange }, Some(seen)) = (&step.change, &mut self.seen) {
            seen.objects.exchanges.remove(exchange);
            seen.objects.bindings.retain(|it| it.source != *exchange);
        }
        Ok(Some(true))
    }

    /// The reports of every queue that is deleted are looked at, twice a second.
    pub(super) fn look(&mut self, broker: &Broker) {
        let is_deletion = |step: &Step| matches!(step.change, Change::DeleteQueue { .. });
        if !self.plan.steps.get(self.done).is_some_and(is_deletion) {
            return;
        }
        for (queue, reports) in self.reports.iter_mut().filter(|(_, it)| !it.are_newer()) {
            if let Some(report) = broker.report(queue) {
                reports.seen(report);
            }
        }
    }

    /// Whether the queue may go; `None` while its counts may be older than the unbinding.
    fn delete(&mut self, queue: &str, broker: &Broker) -> Option<bool> {
        self.look(broker);
        let since_ms = *self.counting_ms.get_or_insert(broker.now_ms);
        let waited = Duration::from_millis(broker.now_ms - since_ms);
        let is_counted = match self.reports.get(queue).filter(|it| it.any()) {
            _ if self.fault == Fault::CountsBelievedAtOnce => true,
            Some(reports) if reports.are_newer() => true,
            Some(_) if waited > StatisticsInterval::default().uncounted_at_most() => {
                return Some(false);
            }
            Some(_) => false,
            None => waited >= surely_settle(),
        };
        if !is_counted {
            return None;
        }
        if broker.is_bound(queue) {
            return Some(false);
        }
        let counted = broker.counted(queue);
        let is_empty = counted.is_some_and(|it| it.max(broker.ready(queue)) == 0);
        Some(is_empty || self.fault == Fault::DeletesUncounted)
    }

    pub(super) fn describe(&self) -> String {
        let next = self.plan.steps.get(self.done).map(|step| step.change.to_string());
        format!("{NAME}: step {} of {}: {next:?}", self.done, self.plan.steps.len())
    }
}
