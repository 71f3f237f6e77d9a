//! What is known about broker, database and machine, as data.

mod broker;
mod database;

use crate::topology::Topology;

pub use broker::{Alarm, AmqpConnection, ApiFacts, BrokerFacts, Overview, Permission, Replicas};
pub(in crate::doctor) use database::NO_SESSION;
pub use database::{DatabaseFacts, Outbox, Server, Session, Sweep, Table};

/// Something that was asked, and may not have been answered.
pub type Asked<T> = Result<T, Gap>;

/// Why something is not known.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gap {
    /// Who did not answer, or which right is missing.
    pub reason: String,
    /// How to get the answer.
    pub fix: String,
    /// Whether a right is what is missing.
    pub denied: bool,
}

impl Gap {
    /// Nobody answered.
    pub fn new(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: reason.into(), fix: fix.into(), denied: false }
    }

    /// It follows from what another check is about, which says why.
    pub fn after(check: &str, reason: impl Into<String>) -> Self {
        Self::new(reason, format!("mend {check}"))
    }

    /// A right is missing.
    pub fn denied(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { denied: true, ..Self::new(reason, fix) }
    }
}

/// Everything the checks look at.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The topology of the file.
    pub topology: Asked<Topology>,
    /// Connections a worker opens at the most, `database.connections`.
    pub connections: usize,
    /// RabbitMQ.
    pub broker: BrokerFacts,
    /// PostgreSQL.
    pub database: DatabaseFacts,
    /// This process and its machine.
    pub machine: MachineFacts,
}

impl Facts {
    /// The topology, for the checks after the one that says why there is none.
    ///
    /// # Errors
    /// There is none.
    pub fn known_topology(&self) -> Asked<&Topology> {
        self.topology.as_ref().map_err(|_| Gap::after("file", "there is no topology"))
    }
}

/// Whether a host is this machine, as far as its name tells; a Unix socket is a path.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    matches!(host, "localhost" | "::1") || host.starts_with("127.") || host.starts_with('/')
}

/// How much another clock is ahead of this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// Milliseconds; negative is behind.
    pub ahead_ms: i64,
    /// How far off the reading can be, in milliseconds.
    pub margin_ms: i64,
}

/// What is known about this process and its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Files this process may have open.
    pub open_files: Asked<u64>,
    /// Cores it may use.
    pub cores: usize,
}
