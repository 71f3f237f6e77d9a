//! What closes the orders: the worker, and what others build in its place.

pub(crate) mod broker_alone;
pub(crate) mod outbox;
pub(crate) mod plain_sql;
pub(crate) mod poller;
mod process;
pub(crate) mod tutorial;

use std::{fmt, path::PathBuf};

pub(crate) use process::{Process, ProcessError};

/// How our worker is run.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Run {
    /// One process, with default settings.
    #[default]
    Usual,
    /// So many processes, which share the work.
    Several(usize),
    /// With `events.publish = false`: no outbox row is written, and nothing is published.
    WithoutEvents,
}

/// What closes the orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Contestant {
    /// `overdue run` of a program.
    Worker {
        /// Which program.
        program: PathBuf,
        /// How it differs from other programs, where there are several.
        label: Option<String>,
        /// How it is run.
        run: Run,
    },
    /// Batches on two connections, without any message.
    PlainSql,
    /// Looks every 10 ms for what is overdue.
    Poller,
    /// One message, one transaction, one ack.
    Tutorial,
    /// A consumer that only acks: closes nothing.
    Broker,
}

impl Contestant {
    /// Whether its orders have notices.
    pub(crate) const fn needs_notices(&self) -> bool {
        matches!(self, Self::Worker { .. } | Self::Tutorial | Self::Broker)
    }

    /// Whether it writes a row into `closures` for each order.
    pub(crate) const fn audits(&self) -> bool {
        matches!(self, Self::Worker { .. } | Self::PlainSql | Self::Poller)
    }

    /// Whether somebody publishes the events that it writes.
    pub(crate) const fn publishes_events(&self) -> bool {
        matches!(self, Self::Worker { run: Run::Usual | Run::Several(_), .. })
    }

    /// Whether it is our worker as most people run it.
    pub(crate) const fn is_usual_worker(&self) -> bool {
        matches!(self, Self::Worker { run: Run::Usual, .. })
    }

    /// Whether it is our worker without events.
    pub(crate) const fn is_without_events(&self) -> bool {
        matches!(self, Self::Worker { run: Run::WithoutEvents, .. })
    }

    /// How many processes it is, where it is one.
    pub(crate) const fn processes(&self) -> usize {
        match self {
            Self::Worker { run: Run::Several(processes), .. } => *processes,
            _ => 1,
        }
    }

    /// The same program, as most people run it; `None` where it is not our worker.
    pub(crate) fn usual(&self) -> Option<Self> {
        match self {
            Self::Worker { program, label, .. } => Some(Self::Worker {
                program: program.clone(),
                label: label.clone(),
                run: Run::Usual,
            }),
            _ => None,
        }
    }

    /// As a command line names it.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Worker { .. } => "overdue",
            Self::PlainSql => "plain-sql",
            Self::Poller => "poller",
            Self::Tutorial => "tutorial",
            Self::Broker => "broker",
        }
    }
}

impl fmt::Display for Contestant {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker { label, run, .. } => {
                match run {
                    Run::Usual => f.write_str("overdue")?,
                    Run::Several(processes) => write!(f, "overdue x{processes}")?,
                    Run::WithoutEvents => f.write_str("overdue, no events")?,
                }
                label.iter().try_for_each(|label| write!(f, " ({label})"))
            }
            Self::PlainSql => f.write_str("plain SQL, 2 connections"),
            Self::Poller => f.write_str("poller, every 10 ms"),
            Self::Tutorial => f.write_str("tutorial, one by one"),
            Self::Broker => f.write_str("broker alone"),
        }
    }
}
