//! What it takes to bring a broker to the desired topology, as data: printed, then executed as it is.

pub mod diff;

use std::fmt;

use crate::topology::objects::{Argument, Binding, Exchange, Queue};

/// The changes, in the order in which they are carried out, and what stands in their way.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// Carried out front to back; stopping after any of them leaves no window in which a message is lost.
    pub changes: Vec<Change>,
    /// Objects that exist with other properties. While there is one, nothing is carried out.
    pub conflicts: Vec<Conflict>,
}

/// One step of a plan.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Change {
    /// Declare an exchange.
    CreateExchange(Exchange),
    /// Declare a queue.
    CreateQueue(Queue),
    /// Bind a queue to an exchange.
    Bind(Binding),
}

/// An object that exists, but not as desired.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conflict {
    /// `queue` or `exchange`.
    pub object: &'static str,
    /// Its name.
    pub name: String,
    /// Everything that differs.
    pub differences: Vec<Difference>,
}

/// A property or argument that differs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Difference {
    /// `type`, `durable`, `x-message-ttl`, …
    pub property: String,
    /// What the topology wants; `None` is "not set".
    pub desired: Option<Argument>,
    /// What the broker has; `None` is "not set".
    pub observed: Option<Argument>,
}

impl Plan {
    /// Whether there is nothing to do and nothing in the way.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.conflicts.is_empty()
    }

    /// One line: how much of what.
    #[must_use]
    pub fn summary(&self) -> String {
        if self.is_empty() {
            return "no change: the broker has this topology".to_owned();
        }
        let count =
            |of: fn(&Change) -> bool| self.changes.iter().filter(|change| of(change)).count();
        let exchanges = count(|change| matches!(change, Change::CreateExchange(_)));
        let queues = count(|change| matches!(change, Change::CreateQueue(_)));
        let bindings = count(|change| matches!(change, Change::Bind(_)));
        let mut line =
            format!("to create: {exchanges} exchanges, {queues} queues, {bindings} bindings");
        if !self.conflicts.is_empty() {
            line += "; in the way: ";
            line += &self.conflicts.len().to_string();
        }
        line
    }
}

impl fmt::Display for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for change in &self.changes {
            writeln!(f, "  + {change}")?;
        }
        for conflict in &self.conflicts {
            write!(f, "{conflict}")?;
        }
        write!(f, "{}", self.summary())
    }
}

impl fmt::Display for Change {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::CreateExchange(exchange) => {
                write!(f, "exchange  {}  ({}", exchange.name, exchange.kind)?;
                arguments(f, &exchange.arguments)
            }
            Self::CreateQueue(queue) => {
                write!(f, "queue     {}  ({}", queue.name, queue.kind)?;
                arguments(f, &queue.arguments)
            }
            Self::Bind(binding) => {
                write!(f, "binding   {} -> {}", binding.source, binding.destination)?;
                if binding.routing_key.is_empty() {
                    Ok(())
                } else {
                    write!(f, "  ({})", binding.routing_key)
                }
            }
        }
    }
}

fn arguments(
    f: &mut fmt::Formatter<'_>,
    arguments: &std::collections::BTreeMap<String, Argument>,
) -> fmt::Result {
    for (key, value) in arguments {
        write!(f, ", {key}={value}")?;
    }
    write!(f, ")")
}

impl fmt::Display for Conflict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "  ! {} {} exists with other properties", self.object, self.name)?;
        for difference in &self.differences {
            writeln!(f, "      {difference}")?;
        }
        Ok(())
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
