//! A plan: the changes that bring a broker to the desired topology, as data. The printed steps are the steps that are carried out.

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

pub(crate) use self::draining::{BlockedBy, RetiredExchange, count_of};
pub use self::{
    draining::{DrainStatus, Draining},
    refusal::{Note, Refusal},
    step::{Change, Contents, Difference, Reason, Replaced, Step},
};
use crate::text::counted;

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

    /// Whether the plan has no step and no refusal, and nothing drains that a later plan can delete without a person.
    pub fn is_at_rest(&self) -> bool {
        let ends = |it: &Draining| it.drains.ends();
        self.is_empty()
            && !self.draining.iter().any(ends)
            && !self.retired_exchanges.iter().any(|it| it.needed.ends(&self.draining))
    }

    /// Queues that this plan takes out of use, or that an earlier plan did: the plan depends on their messages.
    pub fn leaving(&self) -> BTreeSet<String> {
        // An unbound queue is either deleted or in `draining`.
        let deleted = self.changes().filter_map(|change| match change {
            Change::DeleteQueue { queue, .. } => Some(queue),
            _ => None,
        });
        let draining = self.draining.iter().map(|draining| &draining.queue);
        let consumed = self.notes.iter().filter_map(|note| match note {
            Note::Consumed { queue, .. } => Some(queue),
            Note::Unmarked { .. } | Note::Unused { .. } | Note::Policy { .. } => None,
        });
        deleted.chain(draining).chain(consumed).cloned().collect()
    }

    /// Whether the plan depends on the broker's clock: the queue of a removed timeout stays bound for a limited time.
    pub fn depends_on_time(&self) -> bool {
        self.draining.iter().any(|it| matches!(it.drains, DrainStatus::Leaving { .. }))
    }

    /// The changes without their reasons, which contain message counts.
    pub fn changes(&self) -> impl Iterator<Item = &Change> {
        self.steps.iter().map(|step| &step.change)
    }

    /// Number of messages that the plan deletes.
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

    /// One line: the number of changes of each kind, and whether messages are lost.
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
            (count(|it| matches!(it, Change::Leave(_))), "queue", " to unbind later"),
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

    /// Whether a policy changes what the objects of the topology do.
    fn is_overridden(&self) -> bool {
        self.notes.iter().any(|note| matches!(note, Note::Policy { .. }))
    }

    /// Whether messages are lost, as text.
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
            (true, 0) => "no message is lost".to_owned(),
            (true, 1) => "1 message is LOST".to_owned(),
            (true, messages) => format!("{messages} messages are LOST"),
        }
    }

    /// The queues and exchanges that the plan takes away, now or later.
    pub fn retired(&self) -> BTreeSet<String> {
        let draining = self.draining.iter().map(|it| it.queue.clone());
        let exchanges = self.retired_exchanges.iter().map(|it| it.exchange.clone());
        let steps =
            self.steps.iter().filter(|it| !it.adds()).map(|it| it.change.object().to_owned());
        let consumed = self.notes.iter().filter_map(|it| match it {
            Note::Consumed { queue, .. } => Some(queue.clone()),
            _ => None,
        });
        draining.chain(exchanges).chain(steps).chain(consumed).collect()
    }

    /// Whether each step takes away, or marks, one of `retired`.
    pub fn only_retires(&self, retired: &BTreeSet<String>) -> bool {
        let is_known = |it: &Step| {
            let creates = it.adds() || matches!(it.change, Change::CreateQueue(_));
            !creates && retired.contains(it.change.object())
        };
        self.steps.iter().all(is_known)
    }

    /// Queues in use that the plan replaces or retires, without queues of removed timeouts. The topology file is older than the
    /// broker's topology, or was not applied yet.
    pub fn takes_out_of_use(&self) -> BTreeSet<&str> {
        let queues = self.steps.iter().filter_map(|step| match (&step.change, &step.reason) {
            (Change::CreateQueue(_), Reason::Replaces(it)) => Some(it.queue.as_str()),
            (
                Change::Unbind(it),
                Reason::Succeeded { .. }
                | Reason::LevelRemoved { .. }
                | Reason::LadderRemoved { .. },
            ) if it.to_queue => Some(it.destination.as_str()),
            _ => None,
        });
        queues.collect()
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
