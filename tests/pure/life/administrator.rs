//! Whoever changes a topology, step by step: what `administration/apply` does, with a broker that goes on between any two
//! steps. What decides is the code of the plan itself.

use std::{
    collections::{BTreeMap, BTreeSet},
    time::Duration,
};

use overdue::internals::{
    objects::Acks,
    plan::{
        Change, Contents, CountReports, Fingerprint, KeptQueues, Plan, Reason, Snapshot,
        StatisticsInterval, Step, is_needed,
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
    /// The queue of a removed timeout is unbound on one look.
    NoSecondLook,
    /// What is taken out of use is unbound before what takes its place is there.
    UnbindsFirst,
    /// A place of a ladder is taken down although one before it was kept.
    ForgetsWhatItKept,
    /// An exchange is deleted without a look at what leads to it.
    DeletesNeededExchanges,
    /// The queue that a message is in does not matter, only whether it is bound.
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
    kept: KeptQueues,
    all_done: bool,
    seen: Option<Snapshot>,
    unbinding: Vec<Change>,
    looks: Looks,
    unbound_ms: u64,
    reports: BTreeMap<String, CountReports>,
}

/// Plans that are made again before a queue of a removed timeout is unbound.
#[derive(Default)]
struct Looks {
    made: u32,
    last_ms: u64,
    acked: BTreeMap<String, Option<Acks>>,
}

impl Administrator {
    /// Holds the lock from now on, and has read the first part of what there is.
    pub(super) fn begin(
        topology: Topology,
        asked: Option<Fingerprint>,
        fault: Fault,
        broker: &mut Broker,
    ) -> Self {
        broker.wanted = topology.timeouts.iter().map(|it| it.name.clone()).collect();
        Self {
            topology,
            asked,
            fault,
            reading: Some(broker.observe()),
            plan: Plan::default(),
            done: 0,
            kept: KeptQueues::default(),
            all_done: true,
            seen: None,
            unbinding: Vec::new(),
            looks: Looks::default(),
            unbound_ms: 0,
            reports: BTreeMap::new(),
        }
    }

    pub(super) fn go_on(&mut self, broker: &mut Broker) -> Result<Moved, TestCaseError> {
        if let Some(reading) = self.reading.take() {
            return Ok(self.decide(broker.look_closer(&self.topology, reading), broker));
        }
        let Some(step) = self.plan.steps.get(self.done).cloned() else { return Ok(Moved::Over) };
        let is_exchange = matches!(step.change, Change::DeleteExchange { .. });
        self.seen = self.seen.take().filter(|_| is_exchange);
        let forgets = self.fault == Fault::ForgetsWhatItKept;
        let carried_out = if !forgets && self.kept.hold_up(&self.topology, &step) {
            Some(false)
        } else {
            self.carry_out(&step, broker)?
        };
        let Some(carried_out) = carried_out else { return Ok(Moved::Waits) };
        self.all_done &= carried_out;
        self.done += 1;
        Ok(Moved::On)
    }

    /// Carries the plan out if it is the one that was asked for.
    fn decide(&mut self, plan: Plan, broker: &Broker) -> Moved {
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
        let unbinding = plan.steps.iter().filter(|step| is_of_an_empty_timeout(step));
        self.unbinding = unbinding.map(|step| step.change.clone()).collect();
        self.unbound_ms = broker.now_ms;
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
                    self.kept.keep(&self.topology, queue);
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
                if self.fault != Fault::DeletesNeededExchanges && is_needed {
                    return Ok(Some(false));
                }
            }
            Change::Unbind(_)
                if is_of_an_empty_timeout(step) && self.fault != Fault::NoSecondLook =>
            {
                if !self.has_looked_again(broker) {
                    return Ok(None);
                }
                if !self.unbinding.contains(&step.change) {
                    return Ok(Some(false));
                }
            }
            _ => {}
        }
        broker.change(&step.change)?;
        if matches!(step.change, Change::Unbind(_) | Change::DeleteExchange { .. }) {
            self.unbound_ms = broker.now_ms;
            self.reports.values_mut().for_each(|reports| *reports = CountReports::default());
        }
        if let (Change::DeleteExchange { exchange }, Some(seen)) = (&step.change, &mut self.seen) {
            seen.objects.exchanges.remove(exchange);
            seen.objects.bindings.retain(|it| it.source != *exchange);
        }
        Ok(Some(true))
    }

    /// Three plans, each made when the counts of the one before are surely over.
    fn has_looked_again(&mut self, broker: &Broker) -> bool {
        let queues: BTreeSet<String> =
            self.unbinding.iter().filter_map(unbound).map(str::to_owned).collect();
        let Looks { made, last_ms, .. } = self.looks;
        if made == 0 {
            self.looks.acked = queues.iter().map(|it| (it.clone(), broker.acked(it))).collect();
        } else if made > 2 || self.unbinding.is_empty() {
            return true;
        } else if Duration::from_millis(broker.now_ms - last_ms) < surely_settle() {
            return false;
        }
        let again = broker.look_closer(&self.topology, broker.observe());
        self.unbinding.retain(|change| again.changes().any(|planned| planned == change));
        (self.looks.made, self.looks.last_ms) = (made + 1, broker.now_ms);
        if self.looks.made < 3 && !self.unbinding.is_empty() {
            return false;
        }
        let acked = &self.looks.acked;
        self.unbinding.retain(|change| {
            unbound(change).is_some_and(|it| acked.get(it) == Some(&broker.acked(it)))
        });
        true
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
        let waited = Duration::from_millis(broker.now_ms - self.unbound_ms);
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
        let counted =
            if self.fault == Fault::DeletesUncounted { Some(0) } else { broker.counted(queue) };
        Some(counted.is_some_and(|it| it.max(broker.ready(queue)) == 0))
    }

    pub(super) fn describe(&self) -> String {
        let next = self.plan.steps.get(self.done).map(|step| step.change.to_string());
        format!("{NAME}: step {} of {}: {next:?}", self.done, self.plan.steps.len())
    }
}

fn unbound(change: &Change) -> Option<&str> {
    match change {
        Change::Unbind(binding) => Some(&binding.destination),
        _ => None,
    }
}

/// Whether it unbinds the queue of a removed timeout in which nothing is, by counts that are late.
fn is_of_an_empty_timeout(step: &Step) -> bool {
    matches!(step.change, Change::Unbind(_))
        && matches!(step.reason, Reason::TimeoutRemoved { contents: Contents::Empty, in_levels: 0 })
}
