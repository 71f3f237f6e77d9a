//! Levels that differ in their lead alone: a worker holds what comes early, by whatever lead.

use std::collections::BTreeSet;

use super::{Change, Plan, Reason, Replaced, generation::number_of};
use crate::{objects::Argument, topology::Topology};

impl Plan {
    /// Takes out of it what gives levels another lead; the queues that stay as they are.
    pub(crate) fn leave_other_leads(&mut self, topology: &Topology) -> Vec<String> {
        let mut new = BTreeSet::new();
        let mut old = Vec::new();
        for step in &self.steps {
            if let (Change::CreateQueue(queue), Reason::Replaces(replaced)) =
                (&step.change, &step.reason)
                && differs_in_lead(topology, replaced)
            {
                new.insert(queue.name.clone());
                old.push(replaced.queue.clone());
            }
        }
        self.steps.retain(|step| match &step.change {
            Change::CreateQueue(queue) => !new.contains(&queue.name),
            Change::Bind(binding) => !new.contains(&binding.destination),
            _ => true,
        });
        old
    }
}

/// Whether the queue holds messages for no longer than its level is called, and for at least half of that.
fn differs_in_lead(topology: &Topology, replaced: &Replaced) -> bool {
    let [difference] = &replaced.differences[..] else { return false };
    let Some(Argument::Integer(ms)) = difference.observed else { return false };
    let mut levels = topology.delay_queues();
    difference.property == "x-message-ttl"
        && levels.any(|(level, base)| {
            let most = level.ttl().as_millis();
            let fits = u64::try_from(ms).is_ok_and(|ms| ms <= most && ms >= most / 2);
            fits && number_of(&base, &replaced.queue).is_some()
        })
}
