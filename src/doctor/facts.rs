//! What is known about broker, database and machine, as data.

use std::{collections::BTreeMap, net::IpAddr};

use crate::{
    condition::obstacle::Obstacle,
    diagnostic::{Diagnostic, Draft},
    doctor::effect_plan::EffectPlan,
    plan::snapshot::{QueueStats, Snapshot},
    topology::Topology,
};

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
    #[must_use]
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
            replicas: Err(gap.clone()),
            observed: Err(gap.clone()),
            stats: Err(gap.clone()),
            clock: Err(gap),
        }
    }

    /// The overview, for the checks after the one that says why there is none.
    ///
    /// # Errors
    /// There is none.
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
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Alarm {
    /// On which node.
    pub node: String,
    /// `memory` or `disk space`.
    pub resource: String,
}

/// What a user may do in a virtual host: regular expressions of names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Permission {
    /// The user it was granted to.
    pub user: String,
    /// The virtual host it is for.
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

/// What to do where nothing is known because there is no session.
pub(in crate::doctor) const NO_SESSION: &str = "see the errors above";

/// What is known about PostgreSQL.
#[derive(Clone, Debug)]
pub struct DatabaseFacts {
    /// Where it is, without the password.
    pub address: String,
    /// Whether the host is this machine.
    pub loopback: bool,
    /// What became of a connection.
    pub session: Session,
    /// The tables that are ours.
    pub tables: Asked<Vec<Table>>,
    /// The schemas of the search path.
    pub schemas: Asked<Vec<Schema>>,
    /// The outbox.
    pub outbox: Asked<Outbox>,
    /// What order services write with `schedule()`.
    pub scheduled: Asked<Scheduled>,
    /// The plan of each effect, where its SQL fits, by name.
    pub effects: Vec<(String, Asked<EffectPlan>)>,
    /// How each effect's overdue orders are found, by name.
    pub sweeps: Vec<(String, Asked<Sweep>)>,
    /// What keeps overdue orders of each effect from being closed, by name; not asked where its SQL does not fit.
    pub obstacles: Vec<(String, Asked<Option<Obstacle>>)>,
    /// Its clock against this machine's.
    pub clock: Asked<Skew>,
}

impl DatabaseFacts {
    /// No session, and so nothing else.
    #[must_use]
    pub fn unknown(address: String, loopback: bool, session: Session) -> Self {
        let gap = Gap::new("no session", NO_SESSION);
        Self {
            address,
            loopback,
            session,
            tables: Err(gap.clone()),
            schemas: Err(gap.clone()),
            outbox: Err(gap.clone()),
            scheduled: Err(gap.clone()),
            effects: Vec::new(),
            sweeps: Vec::new(),
            obstacles: Vec::new(),
            clock: Err(gap),
        }
    }
}

/// What became of a connection to PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// It stands.
    Open(Server),
    /// Nobody answers, or the URL cannot be used.
    Unreachable(String),
    /// The login is refused, or there is no such database.
    LoginRefused(String),
}

/// A user of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// Who may do everything.
    Super(String),
    /// Who may do what was granted.
    Other(String),
}

/// What the server says about itself and this session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// Who has logged in.
    pub user: User,
    /// `server_version_num`, e.g. 180000.
    pub version_num: i32,
    /// How this session is encrypted.
    pub tls: Encryption,
    /// Whether it is a standby.
    pub standby: bool,
    /// Whether transactions are read-only.
    pub read_only: bool,
    /// `max_connections`
    pub max_connections: i64,
    /// Connections kept for superusers and other roles.
    pub reserved: i64,
    /// Client connections at this moment, this one included.
    pub used: i64,
    /// `track_commit_timestamp`
    pub commit_timestamps: bool,
}

/// A table of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// As it is looked for along the search path.
    pub name: String,
    /// Whether it is found along the search path.
    pub exists: bool,
    /// Rights on it that the user lacks.
    pub lacks: Vec<String>,
}

impl Table {
    /// Whether this is the login of a person who looks, and puts back what is parked: it deletes in none of them.
    #[must_use]
    pub fn only_read(tables: &[Self]) -> bool {
        let lacks = |table: &Self, privilege: &str| table.lacks.iter().any(|it| it == privilege);
        tables.iter().all(|table| {
            table.exists
                && lacks(table, "DELETE")
                && (!lacks(table, "SELECT") || table.name == "dropped_messages")
        })
    }
}

/// A schema of the search path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// Quoted where it has to be.
    pub name: String,
    /// Whether this user may use it; otherwise nothing is found there.
    pub may_use: bool,
    /// Who may create in it, beside its owner and this user.
    pub creators: Vec<String>,
}

/// What waits in the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    /// Events.
    pub events: i64,
    /// Age of the oldest in milliseconds, by the database's clock.
    pub oldest_ms: i64,
    /// Events that the broker refuses or does not confirm, and those behind them.
    pub refused: i64,
    /// The event name of which that has been so for the longest time.
    pub longest: Option<RefusedName>,
    /// Events that can never be published.
    pub unpublishable: i64,
    /// Why one of them cannot.
    pub unpublishable_reason: Option<String>,
}

/// An event name that the broker refuses or does not confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedName {
    /// The name.
    pub event: String,
    /// For how many milliseconds, by the database's clock.
    pub lasts_ms: i64,
    /// The order of the oldest such event; `None` where it was published at this moment.
    pub order_id: Option<String>,
    /// Why it waits.
    pub reason: Option<String>,
}

/// What waits to be published of what `schedule()` wrote.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// A table that is missing, or rights on one; then nothing else is known.
    pub lacks: Option<String>,
    /// Notices.
    pub notices: i64,
    /// Age of the oldest in milliseconds, by the database's clock.
    pub oldest_ms: i64,
    /// Notices that were set aside.
    pub refused: i64,
    /// Why one of them was.
    pub reason: Option<String>,
}

/// How overdue orders are found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// The effect has no `overdue_sql`.
    None,
    /// The plan that PostgreSQL makes for any limit and grace.
    Planned {
        /// Tables it reads from end to end, although it was asked not to.
        scans: Vec<String>,
    },
}
