//! What is known about broker, database and machine, as data.

mod database;

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;

use crate::{
    diagnostic::{Diagnostic, Draft},
    plan::snapshot::{QueueStats, Snapshot},
    topology::Topology,
};

pub use database::*;

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
    /// What `overdue verify` finds, worst first.
    pub verified: Asked<Vec<Diagnostic>>,
    /// PostgreSQL.
    pub database: DatabaseFacts,
    /// This process and its machine.
    pub machine: MachineFacts,
    /// The alerts of the settings.
    pub alerts: Vec<AlertFacts>,
}

/// One alert.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertFacts {
    /// Its name in the settings.
    pub alert: String,
    /// Scheme, host and port, or why it cannot send.
    pub to: Result<String, String>,
    /// What the other side answered to the test message of `--send-alert`, or why it has not taken it.
    pub answer: Option<Result<String, String>>,
}

impl Facts {
    /// The topology, for the checks after the one that says why there is none.
    pub fn known_topology(&self) -> Asked<&Topology> {
        self.topology.as_ref().map_err(|_| Gap::after("file", "there is no topology"))
    }
}

/// Whether a host is this machine, as far as its name says; a Unix socket is a path.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_own = |address: IpAddr| address.is_loopback();
    host == "localhost" || host.starts_with('/') || host.parse().is_ok_and(is_own)
}

/// What is known about this process and its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// Files this process may have open.
    pub open_files: Asked<u64>,
    /// Cores it may use.
    pub cores: usize,
    /// How many files of the settings hold a password or a key.
    pub secret_files: usize,
    /// Those of them that are open to others.
    pub exposed_files: Vec<ExposedFile>,
}

/// A file with a password or a key that others can read or write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposedFile {
    /// The file.
    pub path: String,
    /// Its permissions.
    pub mode: u32,
    /// Those that it may have.
    pub enough: u32,
}

/// An answer, or why there is none.
pub(crate) type Asked<T> = Result<T, Gap>;

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
        Self::new(reason, format!("see {check}"))
    }

    /// A right is missing.
    pub fn denied(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { denied: true, ..Self::new(reason, fix) }
    }
}

/// A judgement of something that may not be known.
pub(crate) fn known<T>(asked: &Asked<T>, judge: impl FnOnce(&T) -> Draft) -> Draft {
    match asked {
        Ok(known) => judge(known),
        Err(gap) => Draft::warning(format!("not known: {}", gap.reason), gap.fix.clone()),
    }
}

/// How much another clock is ahead of this machine's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skew {
    /// Milliseconds; negative is behind.
    pub ahead_ms: i64,
    /// How far off the reading can be, in milliseconds.
    pub margin_ms: i64,
}

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// Not at all.
    None,
    /// With whomever: the certificate is not checked.
    Unverified,
    /// The certificate is signed by a trusted CA, and may be for another host.
    ChainVerified,
    /// The certificate is signed by a trusted CA, for this host.
    Verified,
}

/// What is known about RabbitMQ.
#[derive(Clone, Debug)]
pub struct BrokerFacts {
    /// Where it is, without the password.
    pub address: String,
    /// The AMQP user.
    pub user: String,
    /// The virtual host.
    pub virtual_host: String,
    /// How AMQP is encrypted.
    pub tls: Encryption,
    /// Whether every host is this machine.
    pub loopback: bool,
    /// What became of an AMQP connection.
    pub connection: AmqpConnection,
    /// What the management API says.
    pub api: ApiFacts,
}

/// What the management API says. Where it cannot be called `overview` says why, and the rest only that it cannot.
#[derive(Clone, Debug)]
pub struct ApiFacts {
    /// Its user.
    pub user: String,
    /// Version and exchange types.
    pub overview: Asked<Overview>,
    /// Stable feature flags that are off.
    pub feature_flags_off: Asked<Vec<String>>,
    /// Deprecated features in use.
    pub deprecated: Asked<Vec<String>>,
    /// Plugins that are enabled on some node.
    pub plugins: Asked<Vec<String>>,
    /// Alarms in effect.
    pub alarms: Asked<Vec<Alarm>>,
    /// Permissions of all users.
    pub permissions: Asked<Vec<Permission>>,
    /// Nodes of the cluster; none where the user may not list them (tag `monitoring`).
    pub nodes: Option<usize>,
    /// Members of the virtual host's quorum queues.
    pub replicas: Asked<Vec<Replicas>>,
    /// The virtual host's objects.
    pub observed: Asked<Snapshot>,
    /// Numbers of its queues.
    pub stats: Asked<BTreeMap<String, QueueStats>>,
    /// Its clock against this machine's.
    pub clock: Asked<Skew>,
}

impl ApiFacts {
    /// Everything missing for one reason.
    pub fn unknown(user: String, why: Gap) -> Self {
        let gap = silent(&why);
        Self {
            user,
            overview: Err(why),
            feature_flags_off: Err(gap.clone()),
            deprecated: Err(gap.clone()),
            plugins: Err(gap.clone()),
            alarms: Err(gap.clone()),
            permissions: Err(gap.clone()),
            nodes: None,
            replicas: Err(gap.clone()),
            observed: Err(gap.clone()),
            stats: Err(gap.clone()),
            clock: Err(gap),
        }
    }

    /// The overview, for the checks after the one that says why there is none.
    pub fn known_overview(&self) -> Asked<&Overview> {
        self.overview.as_ref().map_err(silent)
    }
}

/// What follows from an API that cannot be called. A worker without the tag has nothing to fix.
fn silent(why: &Gap) -> Gap {
    if why.denied {
        return Gap::denied("the management API may not be called", "see management-api");
    }
    Gap::after("management-api", "the management API does not answer")
}

/// What became of an AMQP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AmqpConnection {
    /// It stands.
    Open {
        /// Whether a message that was published got an answer.
        answers: bool,
    },
    /// Nobody answers.
    Unreachable(String),
    /// It takes no more connections.
    Full(String),
    /// The login is refused.
    LoginRefused(String),
    /// The virtual host does not exist, or the user may not use it.
    NoVirtualHost(String),
    /// The URL cannot be used.
    NoAddress(String),
}

/// What the broker says about itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// E.g. `4.3.6`.
    pub version: String,
    /// Types an exchange can have.
    pub exchange_types: Vec<String>,
}

/// A resource alarm: publishers are blocked.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Alarm {
    /// On which node.
    pub node: String,
    /// `memory` or `disk space`.
    pub resource: String,
}

/// What a user may do in a virtual host: regular expressions of names.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Permission {
    /// The user it was granted to.
    pub user: String,
    /// The virtual host it is for.
    #[serde(rename = "vhost")]
    pub virtual_host: String,
    /// Declare and delete.
    pub configure: String,
    /// Publish to, bind.
    pub write: String,
    /// Consume, bind to.
    pub read: String,
}

/// The members of a quorum queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The queue.
    pub queue: String,
    /// The node that leads it.
    pub leader: Option<String>,
    /// Nodes that hold a copy.
    pub members: Vec<String>,
    /// Those of them that are up.
    pub online: Vec<String>,
}
