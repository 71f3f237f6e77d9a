//! What is known about broker, database and machine, as data.

mod asked;
mod broker;
mod database;
mod encryption;

use crate::topology::Topology;

pub(crate) use asked::{Asked, known};
pub use asked::{Gap, Skew};
pub use broker::{Alarm, AmqpConnection, ApiFacts, BrokerFacts, Overview, Permission, Replicas};
pub(in crate::doctor) use database::NO_SESSION;
pub use database::{DatabaseFacts, Outbox, RefusedName, Scheduled, Server, Session, Sweep, Table};
pub use encryption::Encryption;

/// Everything the checks look at.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The topology of the file.
    pub topology: Asked<Topology>,
    /// Connections a worker opens at the most, `database.connections`.
    pub connections: usize,
    /// `broker.dead_letter_slots`.
    pub dead_letter_slots: u64,
    /// RabbitMQ.
    pub broker: BrokerFacts,
    /// PostgreSQL.
    pub database: DatabaseFacts,
    /// This process and its machine.
    pub machine: MachineFacts,
    /// What became of the test messages of `--send-alert`.
    pub alerts: Vec<SentAlert>,
}

/// A test message of one alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SentAlert {
    /// The name of the alert in the settings.
    pub alert: String,
    /// Scheme, host and port.
    pub to: String,
    /// What the other side answered, or why it has not taken the message.
    pub answer: Result<String, String>,
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

/// Whether a host is this machine, as far as its name says; a Unix socket is a path.
#[must_use]
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    matches!(host, "localhost" | "::1") || host.starts_with("127.") || host.starts_with('/')
}

/// What is known about this process and its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Files this process may have open.
    pub open_files: Asked<u64>,
    /// Cores it may use.
    pub cores: usize,
}
