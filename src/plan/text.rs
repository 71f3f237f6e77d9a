//! A plan as a person reads it: sections and signs that need no colour, and a one-line summary.

use std::{collections::BTreeMap, fmt};

use super::{Change, Difference, Draining, Plan, Refusal, Step, count_of};
use crate::objects::Argument;

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let creates = |step: &&Step| {
            matches!(
                step.change,
                Change::CreateExchange(_) | Change::CreateQueue(_) | Change::Bind(_)
            )
        };
        let unbinds = |step: &&Step| matches!(step.change, Change::Unbind(_));
        let deletes = |step: &&Step| matches!(step.change, Change::DeleteQueue { .. });
        section(f, "Create", self.steps.iter().filter(creates))?;
        section(f, "Retire", self.steps.iter().filter(unbinds))?;
        section(f, "Delete", self.steps.iter().filter(deletes))?;
        section(f, "Draining (deleted by a later apply, once empty)", self.draining.iter())?;
        section(f, "Refused", self.refusals.iter())?;
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
                count(|change| matches!(change, Change::Bind(_))),
                "binding to add",
                "bindings to add",
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
    /// Whether anything could be lost.
    fn verdict(&self) -> String {
        let astray = self.draining.iter().filter(|queue| queue.drains.astray());
        let astray: Vec<&str> = astray.map(|queue| queue.queue.as_str()).collect();
        match (self.refusals.is_empty(), self.lost()) {
            (false, _) => "nothing is carried out".to_owned(),
            (true, 0) if !astray.is_empty() => format!(
                "no message is lost by it, but what waits in {} does not come out as the topology says",
                astray.join(", ")
            ),
            (true, 0) => "no message is lost".to_owned(),
            (true, 1) => "1 message is LOST".to_owned(),
            (true, messages) => format!("{messages} messages are LOST"),
        }
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.change)?;
        if self.reason.is_empty() { Ok(()) } else { write!(f, "\n        {}", self.reason) }
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateExchange(exchange) => {
                write!(f, "+ exchange  {}  ({}", exchange.name, exchange.kind)?;
                arguments(f, &exchange.arguments)
            }
            Self::CreateQueue(queue) => {
                write!(f, "+ queue     {}  ({}", queue.name, queue.kind)?;
                arguments(f, &queue.arguments)
            }
            Self::Bind(binding) => {
                write!(f, "+ binding   {} -> {}", binding.source, binding.destination)?;
                key(f, &binding.routing_key)
            }
            Self::Unbind(binding) => {
                write!(f, "- binding   {} -> {}", binding.source, binding.destination)?;
                key(f, &binding.routing_key)
            }
            Self::DeleteQueue { queue, lost: 0 } => write!(f, "- queue     {queue}"),
            Self::DeleteQueue { queue, lost } => {
                write!(f, "- queue     {queue}  WITH {}", count_of(Some(*lost)))
            }
        }
    }
}

fn key(f: &mut fmt::Formatter<'_>, key: &str) -> fmt::Result {
    if key.is_empty() { Ok(()) } else { write!(f, "  ({key})") }
}

fn arguments(f: &mut fmt::Formatter<'_>, arguments: &BTreeMap<String, Argument>) -> fmt::Result {
    for (key, value) in arguments {
        write!(f, ", {key}={value}")?;
    }
    write!(f, ")")
}

impl fmt::Display for Draining {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "~ queue     {}  {} {}", self.queue, count_of(self.messages), self.drains)
    }
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
                "! queue     {queue} was named with --discard\n        that is for the queue of a timeout that is no \
                 longer in the topology, and this is none"
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
