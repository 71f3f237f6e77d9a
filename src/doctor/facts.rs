//! Facts about broker, database and machine.

mod database;

use std::{collections::BTreeMap, net::IpAddr};

use serde::Deserialize;

use crate::{
    diagnostic::{Diagnostic, Draft},
    plan::snapshot::{QueueStats, Snapshot},
    topology::Topology,
};

pub use database::*;

/// The input of all checks.
#[derive(Clone, Debug)]
pub struct Facts {
    /// The topology of the file.
    pub topology: Probed<Topology>,
    /// The most connections that a worker opens, `database.connections`.
    pub connections: usize,
    /// The setting `broker.dead_letter_slots`.
    pub dead_letter_slots: u64,
    /// Facts about RabbitMQ.
    pub broker: BrokerFacts,
    /// The findings of `overdue verify`, worst first.
    pub verified: Probed<Vec<Diagnostic>>,
    /// Facts about PostgreSQL.
    pub database: DatabaseFacts,
    /// Facts about this process and its machine.
    pub machine: MachineFacts,
    /// The alerts of the settings.
    pub alerts: Vec<AlertFacts>,
}

/// An alert and the answer to its test message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AlertFacts {
    /// The alert's name in the settings.
    pub alert: String,
    /// Scheme, host and port, or the reason why the alert cannot be sent.
    pub to: Result<String, String>,
    /// The answer to the test message of `--send-alert`, or the reason of the refusal; `None` if it was not sent.
    pub answer: Option<Result<String, String>>,
}

impl Facts {
    /// The topology, for checks that follow the one that reports a missing topology.
    pub fn known_topology(&self) -> Probed<&Topology> {
        self.topology.as_ref().map_err(|_| ProbeError::after("file", "there is no topology"))
    }
}

/// Whether a host is this machine, judged by its name; a Unix socket is a path.
pub fn is_loopback(host: &str) -> bool {
    let host = host.trim_start_matches('[').trim_end_matches(']');
    let is_own = |address: IpAddr| address.is_loopback();
    host == "localhost" || host.starts_with('/') || host.parse().is_ok_and(is_own)
}

/// Facts about this process and its machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MachineFacts {
    /// The limit of open files of this process.
    pub open_files: Probed<u64>,
    /// Cores that this process may use.
    pub cores: usize,
    /// The number of settings files with a password or a key.
    pub secret_files: usize,
    /// The settings files that other users can read or write.
    pub exposed_files: Vec<ExposedFile>,
}

/// A file with a password or a key that other users can read or write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExposedFile {
    /// The file.
    pub path: String,
    /// The file's permissions.
    pub mode: u32,
    /// The permissions that the file needs.
    pub enough: u32,
}

/// An answer, or the reason why there is none.
pub(crate) type Probed<T> = Result<T, ProbeError>;

/// The reason why a fact is unknown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProbeError {
    /// The service that did not answer, or the missing right.
    pub reason: String,
    /// The next step to get the answer.
    pub fix: String,
    /// Whether a right is missing.
    pub denied: bool,
}

impl ProbeError {
    /// A gap because a service did not answer.
    pub fn new(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { reason: reason.into(), fix: fix.into(), denied: false }
    }

    /// A gap that another check explains.
    pub fn after(check: &str, reason: impl Into<String>) -> Self {
        Self::new(reason, format!("see {check}"))
    }

    /// A gap because a right is missing.
    pub fn denied(reason: impl Into<String>, fix: impl Into<String>) -> Self {
        Self { denied: true, ..Self::new(reason, fix) }
    }
}

/// Judges an answer; a missing answer is a warning.
pub(crate) fn known<T>(asked: &Probed<T>, judge: impl FnOnce(&T) -> Draft) -> Draft {
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
    /// The error of measurement, in milliseconds.
    pub margin_ms: i64,
}

/// How a connection is encrypted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encryption {
    /// No encryption.
    None,
    /// Encrypted, without checking the certificate.
    Unverified,
    /// The certificate is signed by a trusted CA, and may be for another host.
    ChainVerified,
    /// The certificate is signed by a trusted CA, for this host.
    Verified,
}

/// Facts about RabbitMQ.
#[derive(Clone, Debug)]
pub struct BrokerFacts {
    /// The broker's address, without the password.
    pub address: String,
    /// The AMQP user.
    pub user: String,
    /// The virtual host.
    pub virtual_host: String,
    /// The encryption of AMQP.
    pub tls: Encryption,
    /// Whether every host is this machine.
    pub loopback: bool,
    /// The result of an AMQP connection.
    pub connection: AmqpConnection,
    /// The answers of the management API.
    pub api: ApiFacts,
}

/// The answers of the management API. If it cannot be called, `overview` has the reason, and the other fields refer to it.
#[derive(Clone, Debug)]
pub struct ApiFacts {
    /// The user of the management API.
    pub user: String,
    /// Version and exchange types.
    pub overview: Probed<Overview>,
    /// Stable feature flags that are off.
    pub feature_flags_off: Probed<Vec<String>>,
    /// Deprecated features in use.
    pub deprecated: Probed<Vec<String>>,
    /// Plugins that are enabled on any node.
    pub plugins: Probed<Vec<String>>,
    /// Alarms in effect.
    pub alarms: Probed<Vec<Alarm>>,
    /// Permissions of all users.
    pub permissions: Probed<Vec<Permission>>,
    /// Number of nodes in the cluster; `None` if the user may not list them (tag `monitoring`).
    pub nodes: Option<usize>,
    /// Members of the virtual host's quorum queues.
    pub replicas: Probed<Vec<Replicas>>,
    /// The virtual host's objects.
    pub observed: Probed<Snapshot>,
    /// Statistics of the queues.
    pub stats: Probed<BTreeMap<String, QueueStats>>,
    /// The broker's clock, compared with this machine's.
    pub clock: Probed<Skew>,
}

impl ApiFacts {
    /// All facts missing for the same reason.
    pub fn unknown(user: String, why: ProbeError) -> Self {
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

    /// The overview, for checks that follow the one that reports a missing overview.
    pub fn known_overview(&self) -> Probed<&Overview> {
        self.overview.as_ref().map_err(silent)
    }
}

/// The gap of the other facts if the API cannot be called. A worker without the management tag has nothing to fix.
fn silent(why: &ProbeError) -> ProbeError {
    if why.denied {
        return ProbeError::denied("the management API may not be called", "see management-api");
    }
    ProbeError::after("management-api", "the management API does not answer")
}

/// The result of an AMQP connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AmqpConnection {
    /// The connection is open.
    Open {
        /// Whether the broker answered a test publish.
        answers: bool,
    },
    /// The broker does not answer.
    Unreachable(String),
    /// The broker accepts no more connections.
    Full(String),
    /// The broker refused the login.
    LoginRefused(String),
    /// The virtual host does not exist, or the user may not use it.
    NoVirtualHost(String),
    /// The URL cannot be used.
    NoAddress(String),
}

/// The broker's description of itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Overview {
    /// The version, e.g. `4.3.6`.
    pub version: String,
    /// Supported exchange types.
    pub exchange_types: Vec<String>,
}

/// A resource alarm, which blocks publishers.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Alarm {
    /// The node with the alarm.
    pub node: String,
    /// `memory` or `disk space`.
    pub resource: String,
}

/// The rights of a user in a virtual host, as regular expressions of names.
#[derive(Clone, Debug, Deserialize, PartialEq, Eq)]
pub struct Permission {
    /// The user who has the rights.
    pub user: String,
    /// The virtual host of the rights.
    #[serde(rename = "vhost")]
    pub virtual_host: String,
    /// Names for declaring and deleting.
    pub configure: String,
    /// Names for publishing, and for destinations of bindings.
    pub write: String,
    /// Names for consuming, and for sources of bindings.
    pub read: String,
}

/// The members of a quorum queue.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Replicas {
    /// The queue.
    pub queue: String,
    /// The leader's node.
    pub leader: Option<String>,
    /// Nodes with a copy.
    pub members: Vec<String>,
    /// Nodes with a copy that are up.
    pub online: Vec<String>,
}
