//! Who publishes what is in the outbox.

use std::{fmt, path::PathBuf};

/// Who publishes what is in the outbox, each a process of its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Relayer {
    /// `overdue run` of a program.
    Worker {
        /// Which program.
        program: PathBuf,
        /// How it differs from other programs, where there are several.
        label: Option<String>,
    },
    /// The AMQP client, with the same messages and without a database: a floor.
    Client,
    /// The database, from which the same rows are taken and deleted, and nothing is published: the other floor.
    Database,
    /// What is usual: lock 100 rows with `SKIP LOCKED`, publish, wait for the confirms, delete, commit.
    SkipLocked,
}

impl Relayer {
    /// Whether messages arrive.
    pub(super) const fn publishes(&self) -> bool {
        !matches!(self, Self::Database)
    }

    /// Whether the outbox is empty at the end.
    pub(super) const fn empties(&self) -> bool {
        !matches!(self, Self::Client)
    }

    /// As a command line names it.
    pub(crate) const fn word(&self) -> &'static str {
        match self {
            Self::Worker { .. } => "overdue",
            Self::Client => "client",
            Self::Database => "database",
            Self::SkipLocked => "skip-locked",
        }
    }
}

impl fmt::Display for Relayer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Worker { label: None, .. } => f.write_str("overdue"),
            Self::Worker { label: Some(label), .. } => write!(f, "overdue ({label})"),
            Self::Client => f.write_str("lapin alone"),
            Self::Database => f.write_str("plain SQL, 2,000 at once"),
            Self::SkipLocked => f.write_str("SKIP LOCKED, 100 at once"),
        }
    }
}
