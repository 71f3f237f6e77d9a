//! A plan as a person reads it: sections and signs that need no colour, and a one-line summary.

mod later;
mod places;

use std::{
    collections::BTreeMap,
    fmt::{self, Write},
};

use super::{Change, Contents, Difference, Plan, Reason, Refusal, Replaced, Step, count_of};
use crate::{
    objects::Argument,
    text::{OneLine, counted},
};

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
        let queues = places::draining(&self.draining).into_iter();
        let exchanges = self.retired_exchanges.iter().map(ToString::to_string);
        section(f, "Draining (deleted by a later apply, once empty)", queues.chain(exchanges))?;
        section(f, "Refused", self.refusals.iter())?;
        section(f, "Left alone", self.notes.iter())?;
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

impl Plan {
    fn lines(&self, of: impl Fn(&&Step) -> bool) -> impl Iterator<Item = String> {
        places::lines(&self.steps, self.steps.iter().filter(of)).into_iter()
    }

    /// One line: how much of what, and whether anything could be lost.
    #[must_use]
    pub fn summary(&self) -> String {
        let draining = match self.draining.len() {
            0 => String::new(),
            1 => "; 1 retired queue is draining".to_owned(),
            many => format!("; {many} retired queues are draining"),
        };
        if self.is_empty() {
            return format!("no change: the broker has this topology{draining}");
        }
        let count =
            |of: fn(&Change) -> bool| self.steps.iter().filter(|step| of(&step.change)).count();
        let is_mark = |change: &Change| matches!(change, Change::Bind(binding) if binding.mark_of().is_some());
        let parts = [
            (
                count(|change| matches!(change, Change::CreateExchange(_))),
                "exchange to create",
                "exchanges to create",
            ),
            (
                count(|change| matches!(change, Change::CreateQueue(_))),
                "queue to create",
                "queues to create",
            ),
            (
                count(
                    |change| matches!(change, Change::Bind(binding) if binding.mark_of().is_none()),
                ),
                "binding to add",
                "bindings to add",
            ),
            (count(is_mark), "queue to adopt", "queues to adopt"),
            (
                count(|change| matches!(change, Change::Leave(_))),
                "queue to leave in stages",
                "queues to leave in stages",
            ),
            (
                count(|change| matches!(change, Change::Unbind(_))),
                "binding to take away",
                "bindings to take away",
            ),
            (
                count(|change| matches!(change, Change::DeleteQueue { .. })),
                "queue to delete",
                "queues to delete",
            ),
            (
                count(|change| matches!(change, Change::DeleteExchange { .. })),
                "exchange to delete",
                "exchanges to delete",
            ),
            (self.refusals.len(), "refusal", "refusals"),
        ];
        let parts = parts.into_iter().filter(|(count, ..)| *count > 0);
        let list: Vec<String> = parts
            .map(|(count, one, many)| format!("{count} {}", if count == 1 { one } else { many }))
            .collect();
        format!("{}{draining}; {}", list.join(", "), self.verdict())
    }
}

impl Plan {
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
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.change)?;
        match &self.reason {
            Reason::Missing | Reason::Adopted => Ok(()),
            Reason::Replaces(Replaced { differences, .. }) => {
                write!(f, "\n        {}:", self.reason)?;
                differences.iter().try_for_each(|differs| write!(f, "\n          {differs}"))
            }
            reason => write!(f, "\n        {reason}"),
        }
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::Missing => f.write_str("it is missing"),
            Self::Adopted => f.write_str("it is there without a mark, as this program makes it"),
            Self::Replaces(Replaced { queue, .. }) => {
                write!(f, "replaces {queue}, which cannot be changed")
            }
            Self::Succeeded { successor, contents } => {
                write!(f, "{successor} takes its place{contents}")
            }
            Self::LevelRemoved { level, contents } => write!(
                f,
                "level {level} is no longer in the topology; what is still published to it is parked{contents}"
            ),
            Self::LadderRemoved { contents } => write!(
                f,
                "its ladder is no longer in the topology, or has other digits; what is still published to it is \
                 parked{contents}"
            ),
            Self::StrategyChanged => f.write_str(
                "it delayed with another strategy, and nothing is on its way to it; who still publishes to it gets 404",
            ),
            Self::TimeoutRemoved { contents, in_levels } => {
                write!(
                    f,
                    "its timeout is no longer in the topology; what still comes due for it is parked{contents}"
                )?;
                if *in_levels == 0 {
                    return Ok(());
                }
                write!(
                    f,
                    "; up to {} in the levels may be for it: without --discard it is removed in stages, and workers \
                     with the old topology close them",
                    counted(*in_levels, "message")
                )
            }
            Self::TimeoutLeaving { in_levels } => write!(
                f,
                "its timeout is no longer in the topology; it stays bound until what waits for it in the levels ({} \
                 for all timeouts) has come out, for workers with the old topology to consume. A later apply removes \
                 it once it is empty, or this one with --wait. What comes due for it after that is parked",
                count_of(*in_levels)
            ),
            Self::WantedAgain => {
                f.write_str("it was leaving, and its timeout is in the topology again")
            }
            Self::RetiredAndEmpty => f.write_str("retired and empty"),
            Self::Discarded => f.write_str("named with --discard"),
        }
    }
}

/// The end of a sentence about a queue.
impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::Empty => Ok(()),
            Self::Discarded { messages } => {
                let are = if *messages == 1 { "is" } else { "are" };
                write!(f, "; {} in it {are} discarded", count_of(Some(*messages)))
            }
            Self::Draining { messages, drains } => {
                write!(f, "; it has {} {drains}", count_of(*messages))
            }
        }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        match self {
            Self::CreateExchange(exchange) => {
                write!(f, "+ exchange  {}  ({}", exchange.name, exchange.kind)?;
                arguments(f, &exchange.arguments)
            }
            Self::CreateQueue(queue) => {
                write!(f, "+ queue     {}  ({}", queue.name, queue.kind)?;
                arguments(f, &queue.arguments)
            }
            Self::Bind(binding) if binding.mark_of().is_some() => {
                let what = if binding.to_queue { "queue   " } else { "exchange" };
                write!(f, "= {what}  {}", binding.destination)?;
                key(f, &binding.routing_key)
            }
            Self::Bind(binding) => {
                write!(f, "+ binding   {} -> {}", binding.source, binding.destination)?;
                key(f, &binding.routing_key)
            }
            Self::Leave(mark) => write!(f, "~ queue     {}  (leaves)", mark.destination),
            Self::Unbind(binding) => {
                write!(f, "- binding   {} -> {}", binding.source, binding.destination)?;
                key(f, &binding.routing_key)
            }
            Self::DeleteExchange { exchange } => write!(f, "- exchange  {exchange}"),
            Self::DeleteQueue { queue, lost: 0 } => write!(f, "- queue     {queue}"),
            Self::DeleteQueue { queue, lost } => {
                write!(f, "- queue     {queue}  WITH {}", count_of(Some(*lost)))
            }
        }
    }
}

fn key(f: &mut impl Write, key: &str) -> fmt::Result {
    if key.is_empty() { Ok(()) } else { write!(f, "  ({key})") }
}

fn arguments(f: &mut impl Write, arguments: &BTreeMap<String, Argument>) -> fmt::Result {
    for (key, value) in arguments {
        write!(f, ", {key}={value}")?;
    }
    write!(f, ")")
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exchange { exchange, differences } => {
                write!(f, "! exchange  {exchange} exists with other properties")?;
                for difference in differences {
                    write!(f, "\n        {difference}")?;
                }
                write!(
                    f,
                    "\n        RabbitMQ cannot change an exchange, and what is published while it is replaced would be \
                     lost:\n        stop the publishers, delete it (rabbitmqctl eval or the management UI), and apply again"
                )
            }
            Self::Kept { queue } => write!(
                f,
                "! queue     {queue} was named with --discard\n        only the queue of a timeout that is no longer in \
                 the topology can be discarded, and this queue is not one"
            ),
            Self::Occupied { queue, messages } => write!(
                f,
                "! queue     {queue} is no longer in the topology and holds {}\n        let a worker \
                 with the old topology finish them, or lose them with --discard {queue}",
                count_of(*messages)
            ),
        }
    }
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut OneLine(f);
        let show = |value: &Option<Argument>| {
            value.as_ref().map_or_else(|| "not set".to_owned(), ToString::to_string)
        };
        write!(
            f,
            "{}: broker has {}, topology wants {}",
            self.property,
            show(&self.observed),
            show(&self.desired)
        )
    }
}
