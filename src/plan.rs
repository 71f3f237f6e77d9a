//! What it takes to bring a broker to the desired topology, as data: printed, then executed as it is.

pub(crate) mod counts;
pub(crate) mod diff;
mod draining;
pub(crate) mod fingerprint;
pub(crate) mod generation;
pub(crate) mod json;
mod ladder_lines;
pub(crate) mod own_queues;
mod refusal;
pub(crate) mod removal;
pub(crate) mod retired_exchange;
mod retired_queue;
pub(crate) mod snapshot;
mod step;
pub(crate) mod step_order;
mod way;

use std::{collections::BTreeSet, fmt};

use schemars::JsonSchema;
use serde::Serialize;

pub(crate) use self::draining::{Needed, RetiredExchange, count_of};
use self::generation::{is_of, number_of};
pub use self::{
    draining::{Draining, Drains},
    refusal::{Note, Refusal},
    step::{Change, Contents, Difference, Reason, Replaced, Step},
};
use crate::{
    objects::{Argument, Binding, shard},
    text::counted,
    topology::{Timeout, Topology},
};

/// The changes, in the order in which they are carried out, what they leave for later, and what forbids them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, JsonSchema)]
pub struct Plan {
    /// Carried out front to back; stopping after any of them leaves a topology that works.
    pub steps: Vec<Step>,
    /// Retired queues that wait until they are empty; a later plan deletes them.
    pub draining: Vec<Draining>,
    /// Exchanges of another strategy that wait until nothing comes to them; a later plan deletes them.
    pub retired_exchanges: Vec<RetiredExchange>,
    /// While there is one, nothing is carried out.
    pub refusals: Vec<Refusal>,
    /// What it leaves alone, and a person should know of.
    pub notes: Vec<Note>,
}

impl Plan {
    fn step(&mut self, change: Change, reason: Reason) {
        self.steps.push(Step { change, reason });
    }

    /// Whether the broker has the topology already; retired queues may still be draining.
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty() && self.refusals.is_empty()
    }

    /// Whether nothing is to be done, and nothing drains that a later plan would delete without the help of a person.
    pub fn is_at_rest(&self) -> bool {
        let ends = |it: &Draining| it.drains.ends();
        self.is_empty()
            && !self.draining.iter().any(ends)
            && !self.retired_exchanges.iter().any(|it| it.needed.ends(&self.draining))
    }

    /// Queues that are taken out of use, or were: whose messages matter to the plan.
    pub fn leaving(&self) -> BTreeSet<String> {
        // What is unbound is deleted, or drains.
        let deleted = self.changes().filter_map(|change| match change {
            Change::DeleteQueue { queue, .. } => Some(queue),
            _ => None,
        });
        let draining = self.draining.iter().map(|draining| &draining.queue);
        let consumed = self.notes.iter().filter_map(|note| match note {
            Note::Consumed { queue, .. } => Some(queue),
            Note::Unmarked { .. } | Note::Unused { .. } | Note::Policy { .. } => None,
        });
        let refused = self.refusals.iter().filter_map(|refusal| match refusal {
            Refusal::Occupied { queue, .. } => Some(queue),
            _ => None,
        });
        deleted.chain(draining).chain(refused).chain(consumed).cloned().collect()
    }

    /// Whether it depends on what waits in the levels: a timeout is removed, and some of it may be for that one.
    pub fn removes_timeouts(&self) -> bool {
        let reasons = self.steps.iter().map(|step| &step.reason);
        let leaves = |it: &Draining| matches!(it.drains, Drains::Leaving { .. });
        let occupied = |it: &Refusal| matches!(it, Refusal::Occupied { .. });
        reasons.into_iter().any(Reason::removes_timeout)
            || self.draining.iter().any(leaves)
            || self.refusals.iter().any(occupied)
    }

    /// What it does, without the reasons, which have counts in them.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().map(|step| &step.change)
    }

    /// Messages that carrying it out would lose.
    pub fn lost(&self) -> u64 {
        let lost = self.steps.iter().map(|step| match step.change {
            Change::DeleteQueue { lost, .. } => lost,
            _ => 0,
        });
        lost.sum()
    }

    fn lines(&self, of: impl Fn(&&Step) -> bool) -> impl Iterator<Item = String> {
        ladder_lines::steps(self.steps.iter().filter(of)).into_iter()
    }

    /// One line: how much of what, and whether anything could be lost.
    pub fn summary(&self) -> String {
        let draining = match self.draining.len() {
            0 => String::new(),
            1 => "; 1 retired queue is draining".to_owned(),
            many => format!("; {many} retired queues are draining"),
        };
        if self.is_empty() {
            let but = if self.is_overridden() { ", but policies change what it does" } else { "" };
            return format!("no change: the broker has this topology{but}{draining}");
        }
        let count = |of: fn(&Change) -> bool| self.changes().filter(|change| of(change)).count();
        let parts = [
            (count(|it| matches!(it, Change::CreateExchange(_))), "exchange", " to create"),
            (count(|it| matches!(it, Change::CreateQueue(_))), "queue", " to create"),
            (
                count(|it| matches!(it, Change::Bind(it) if it.mark_of().is_none())),
                "binding",
                " to add",
            ),
            (
                count(|it| matches!(it, Change::Bind(it) if it.mark_of().is_some())),
                "queue",
                " to adopt",
            ),
            (count(|it| matches!(it, Change::Leave(_))), "queue", " to leave in stages"),
            (count(|it| matches!(it, Change::Unbind(_))), "binding", " to take away"),
            (count(|it| matches!(it, Change::DeleteQueue { .. })), "queue", " to delete"),
            (count(|it| matches!(it, Change::DeleteExchange { .. })), "exchange", " to delete"),
            (self.refusals.len(), "refusal", ""),
        ];
        let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
        let list: Vec<String> =
            parts.map(|(count, noun, todo)| format!("{}{todo}", counted(count, noun))).collect();
        format!("{}{draining}; {}", list.join(", "), self.verdict())
    }

    /// Whether a policy keeps the topology from doing what it says.
    fn is_overridden(&self) -> bool {
        self.notes.iter().any(|note| matches!(note, Note::Policy { .. }))
    }

    /// Messages in levels that may be for a timeout that is removed.
    fn may_be_parked(&self) -> u64 {
        let waiting = self.steps.iter().map(|step| match step.reason {
            Reason::TimeoutRemoved { in_levels, .. } => in_levels,
            _ => 0,
        });
        waiting.max().unwrap_or_default()
    }

    /// Whether anything could be lost.
    fn verdict(&self) -> String {
        let misdirected = self.draining.iter().filter(|queue| queue.drains.misdirected());
        let misdirected: Vec<&str> = misdirected.map(|queue| queue.queue.as_str()).collect();
        match (self.refusals.is_empty(), self.lost()) {
            (false, _) => "nothing is carried out".to_owned(),
            (true, 0) if self.is_overridden() => {
                "no message is lost by it, but policies change what the topology does".to_owned()
            }
            (true, 0) if !misdirected.is_empty() => format!(
                "no message is lost by it, but what waits in {} does not come out as the topology says",
                misdirected.join(", ")
            ),
            (true, 0) => match self.may_be_parked() {
                0 => "no message is lost".to_owned(),
                messages => format!(
                    "no message is lost, but up to {} in the levels may come to the parking lot",
                    counted(messages, "message")
                ),
            },
            (true, 1) => "1 message is LOST".to_owned(),
            (true, messages) => format!("{messages} messages are LOST"),
        }
    }

    /// Takes out of it levels that are to be added, if the broker has others in use that the topology does not know: its file
    /// is an older one, or nobody has applied it yet. The queues that are not added, and those in use.
    ///
    /// Levels of `[compat.x-delay]` are judged apart: a section that is new or gone says nothing about the levels.
    pub fn leave_other_levels(&mut self, topology: &Topology) -> Option<[Vec<String>; 2]> {
        let levels = topology.delay_queues().map(|(_, base)| base);
        let of_compat = topology.compat_levels().map(|level| topology.compat_delay_queue(level));
        let kinds = [(levels.collect(), false), (of_compat.collect::<BTreeSet<_>>(), true)];
        let prefix = format!("{}.", topology.compat_queue());
        let [mut left, mut others] = [BTreeSet::new(), BTreeSet::new()];
        for (wanted, is_compat) in kinds {
            let unknown = self.steps.iter().filter_map(|step| match (&step.change, &step.reason) {
                (Change::Unbind(binding), Reason::LevelRemoved { .. }) => {
                    Some(&binding.destination)
                }
                _ => None,
            });
            let unknown = unknown.filter(|queue| queue.starts_with(&prefix) == is_compat);
            let unknown: Vec<String> = unknown.cloned().collect();
            // What is created is bound, too.
            let missing = self.changes().filter_map(|change| match change {
                Change::Bind(binding) if binding.mark_of().is_none() => Some(&binding.destination),
                _ => None,
            });
            let is_wanted = |it: &&String| wanted.iter().any(|base| number_of(base, it).is_some());
            let missing: Vec<String> = missing.filter(is_wanted).cloned().collect();
            if !unknown.is_empty() && !missing.is_empty() {
                left.extend(missing);
                others.extend(unknown);
            }
        }
        if left.is_empty() {
            return None;
        }
        self.steps.retain(|step| match &step.change {
            Change::CreateQueue(queue) => !left.contains(&queue.name),
            Change::Bind(binding) => !left.contains(&binding.destination),
            _ => true,
        });
        Some([left, others].map(|queues| queues.into_iter().collect()))
    }

    /// Takes out of it what takes the place of queues that are in use: the topology's file is an older one, or nobody has applied
    /// it yet. The queues that stay in use.
    ///
    /// What replaces a queue for more than its lead stays in it: no worker starts then.
    pub fn leave_successors(&mut self, topology: &Topology) -> BTreeSet<String> {
        let changed = self.steps.iter().filter_map(|step| match (&step.change, &step.reason) {
            (Change::CreateQueue(queue), Reason::Replaces(it)) => {
                (!differs_in_lead(topology, it)).then_some(&queue.name)
            }
            _ => None,
        });
        let changed: BTreeSet<&String> = changed.collect();
        let in_use = self.steps.iter().filter_map(|step| match (&step.change, &step.reason) {
            (Change::Unbind(it), Reason::Succeeded { successor, .. }) => {
                (it.to_queue && !changed.contains(successor)).then_some(&it.destination)
            }
            (Change::CreateQueue(queue), Reason::Replaces(it)) => {
                (!changed.contains(&queue.name)).then_some(&it.queue)
            }
            _ => None,
        });
        let mut in_use: BTreeSet<String> = in_use.cloned().collect();
        let timeouts = topology.timeouts.iter();
        in_use.extend(timeouts.flat_map(|timeout| self.fewer_shards(topology, timeout)));
        let timeouts = topology.timeouts.iter().map(|timeout| topology.business_queue(timeout));
        let mut bases: Vec<String> =
            topology.objects().queues.into_keys().chain(timeouts).collect();
        bases.retain(|base| in_use.iter().any(|queue| is_of(base, queue)));
        let adds_queue = |name: &str| !bases.iter().any(|base| is_of(base, name));
        let adds_exchange = |name: &str| !bases.iter().any(|base| shard::exchange(base) == name);
        self.steps.retain(|step| match &step.change {
            Change::CreateQueue(queue) => adds_queue(&queue.name),
            Change::CreateExchange(exchange) => adds_exchange(&exchange.name),
            Change::Bind(it) if it.to_queue => adds_queue(&it.destination),
            Change::Bind(it) => adds_exchange(&it.destination),
            _ => true,
        });
        in_use
    }

    /// The shards in use where the topology has more of them. If the last one is bound, somebody has deleted others: these are added
    /// again. The exchange of shards that are made for the first time is bound after all of them.
    fn fewer_shards(&self, topology: &Topology, timeout: &Timeout) -> Vec<String> {
        let changes = |name: &str, of: fn(&Change) -> Option<&Binding>| {
            let mut bindings = self.changes().filter_map(of).filter(|it| it.mark_of().is_none());
            bindings.any(|it| number_of(name, &it.destination).is_some())
        };
        let is_missing = |name: &String| {
            changes(name, |it| if let Change::Bind(it) = it { Some(it) } else { None })
                && !changes(name, |it| if let Change::Unbind(it) = it { Some(it) } else { None })
        };
        let wanted = topology.business_queues(timeout);
        let are_new = is_missing(&topology.shards_exchange(timeout));
        if are_new || !wanted.last().is_some_and(is_missing) {
            return Vec::new();
        }
        wanted.into_iter().filter(|queue| !is_missing(queue)).collect()
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let adopts = |step: &&Step| matches!(step.reason, Reason::Adopted);
        let creates = |step: &&Step| {
            let made = matches!(
                step.change,
                Change::CreateExchange(_) | Change::CreateQueue(_) | Change::Bind(_)
            );
            made && !adopts(step)
        };
        let unbinds = |step: &&Step| matches!(step.change, Change::Leave(_) | Change::Unbind(_));
        let deletes = |step: &&Step| {
            matches!(step.change, Change::DeleteQueue { .. } | Change::DeleteExchange { .. })
        };
        section(f, "Create", self.lines(creates))?;
        section(f, "Adopt (from now on marked as queues of this topology)", self.lines(adopts))?;
        section(f, "Retire", self.lines(unbinds))?;
        section(f, "Delete", self.lines(deletes))?;
        let queues = ladder_lines::draining(&self.draining).into_iter();
        let exchanges = self.retired_exchanges.iter().map(ToString::to_string);
        section(f, "Draining (deleted by a later apply, once empty)", queues.chain(exchanges))?;
        section(f, "Refused", self.refusals.iter())?;
        let (policies, others): (Vec<&Note>, Vec<&Note>) =
            self.notes.iter().partition(|note| matches!(note, Note::Policy { .. }));
        section(f, "Policies that change what the topology does", policies.iter())?;
        section(f, "Left alone", others.iter())?;
        if self.steps.iter().any(|step| step.reason.removes_timeout()) {
            writeln!(
                f,
                "schedule() takes orders for the timeout that is removed until `overdue database init` has run with this file"
            )?;
        }
        f.write_str(&self.summary())
    }
}

fn section<T: fmt::Display>(
    f: &mut fmt::Formatter<'_>,
    title: &str,
    lines: impl Iterator<Item = T>,
) -> fmt::Result {
    let mut lines = lines.peekable();
    if lines.peek().is_some() {
        writeln!(f, "{title}")?;
    }
    lines.try_for_each(|line| writeln!(f, "  {line}"))
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
