//! Facts about PostgreSQL.

use std::{fmt, time::Duration};

use super::{Encryption, ProbeError, Probed, Skew};
use crate::{condition::obstacle::Attempt, doctor::effect_plan::EffectPlan, text::length};

/// The fix of a check that had no session.
pub(in crate::doctor) const NO_SESSION: &str = "see the errors above";

/// Facts about PostgreSQL.
#[derive(Clone, Debug)]
pub struct DatabaseFacts {
    /// The server's address, without the password.
    pub address: String,
    /// Whether the host is this machine.
    pub loopback: bool,
    /// The result of a connection.
    pub session: Session,
    /// The tables of `overdue`.
    pub tables: Probed<Vec<Table>>,
    /// The schemas of the search path.
    pub schemas: Probed<Vec<Schema>>,
    /// The backlog of the outbox.
    pub outbox: Probed<Outbox>,
    /// The backlog of notices that order services write with `schedule()`.
    pub scheduled: Probed<Scheduled>,
    /// The plan of each effect, by name; an error if its SQL does not fit.
    pub effects: Vec<(String, Probed<EffectPlan>)>,
    /// The sweep of each effect, by name.
    pub sweeps: Vec<(String, Probed<Sweep>)>,
    /// Whether each effect can close overdue orders, by name; effects whose SQL does not fit are not tried.
    pub attempts: Vec<(String, Probed<Attempt>)>,
    /// The transactions and slots that hold back VACUUM.
    pub horizon: Probed<Horizon>,
    /// The database's clock, compared with this machine's.
    pub clock: Probed<Skew>,
}

impl DatabaseFacts {
    /// All facts missing, because there is no session.
    pub fn unknown(address: String, loopback: bool, session: Session) -> Self {
        let gap = ProbeError::new("no session", NO_SESSION);
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
            attempts: Vec::new(),
            horizon: Err(gap.clone()),
            clock: Err(gap),
        }
    }
}

/// The result of a connection to PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// A pooler that keeps no prepared statements is in front of the server.
    Pooled(String),
    /// The session is open.
    Open(Server),
    /// The server does not answer, or the URL cannot be used.
    Unreachable(String),
    /// The server refused the login, or there is no such database.
    LoginRefused(String),
}

/// A user of the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum User {
    /// A superuser.
    Super(String),
    /// A user with granted rights.
    Other(String),
}

/// Properties of the server and this session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Server {
    /// The user of this session.
    pub user: User,
    /// `server_version_num`, e.g. 180000.
    pub version_num: i32,
    /// The encryption of this session.
    pub tls: Encryption,
    /// Whether the server is a standby.
    pub standby: bool,
    /// Whether transactions are read-only.
    pub read_only: bool,
    /// `max_connections`
    pub max_connections: i64,
    /// Connections reserved for superusers and other roles.
    pub reserved: i64,
    /// Current client connections, including this one.
    pub used: i64,
    /// `track_commit_timestamp`
    pub commit_timestamps: bool,
    /// `lock_timeout` of a connection that closes orders; 0 waits without a limit.
    pub lock_timeout_ms: i64,
    /// The settings that the user lacks, with their values, if a pooler drops start-up options.
    pub behind_pooler: Option<Vec<(String, String)>>,
}

/// A table of `overdue`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// The table's name, which PostgreSQL looks up along the search path.
    pub name: String,
    /// Whether PostgreSQL finds the table along the search path.
    pub exists: bool,
    /// Rights that the user lacks on the table.
    pub lacks: Vec<String>,
}

impl Table {
    /// Whether this is the login of a person who reads, and replays parked messages: it may delete from no table.
    pub fn only_read(tables: &[Self]) -> bool {
        let lacks = |table: &Self, privilege: &str| table.lacks.iter().any(|it| it == privilege);
        tables.iter().all(|table| {
            // A person on call may pause and resume.
            table.name == "pauses"
                || table.exists
                    && lacks(table, "DELETE")
                    && (!lacks(table, "SELECT") || table.name == "dropped_messages")
        })
    }
}

/// A schema of the search path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schema {
    /// The schema's name, quoted if necessary.
    pub name: String,
    /// Whether this user has USAGE; without it no table is found there.
    pub may_use: bool,
    /// Other users and roles that may create in it, except its owner.
    pub creators: Vec<String>,
}

/// The backlog of the outbox.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Outbox {
    /// The number of events.
    pub events: u64,
    /// Age of the oldest event in milliseconds, by the database's clock.
    pub oldest_ms: u64,
    /// Events that the broker refuses or does not confirm, and the events behind them.
    pub refused: u64,
    /// The event name that has been refused for the longest time.
    pub longest: Option<RefusedName>,
    /// Events that can never be published.
    pub unpublishable: u64,
    /// The reason for one of these events.
    pub unpublishable_reason: Option<String>,
}

/// An event name that the broker refuses or does not confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedName {
    /// The event's name.
    pub event: String,
    /// Milliseconds for which it has been refused, by the database's clock.
    pub lasts_ms: u64,
    /// The order of the oldest refused event; `None` if it has just been published.
    pub order_id: Option<String>,
    /// The reason of the refusal.
    pub reason: Option<String>,
}

/// The backlog of notices from `schedule()`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Scheduled {
    /// A missing table or missing rights; then the other facts are unknown.
    pub lacks: Option<String>,
    /// The number of notices.
    pub notices: u64,
    /// Age of the oldest notice in milliseconds, by the database's clock.
    pub oldest_ms: u64,
    /// Notices that were moved to `scheduled_notices_refused`.
    pub refused: u64,
    /// The reason for one of these notices.
    pub reason: Option<String>,
    /// The timeout of the oldest notice.
    pub timeout: Option<String>,
    /// Triggers whose deadlines depend on the time zone of a session.
    pub zoneless: Vec<ZonelessTrigger>,
}

/// A trigger that calls `schedule_row()` without a time zone, for a column without one. Names are quoted as in SQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonelessTrigger {
    /// The trigger's name.
    pub name: String,
    /// The trigger's table.
    pub table: String,
    /// The column of the deadline.
    pub column: String,
    /// The type of that column.
    pub column_type: String,
    /// The statement that creates the trigger again, with the zone UTC.
    pub write: String,
    /// The time zone of the session of this check.
    pub session_zone: String,
    /// Seconds by which that time zone is ahead of UTC.
    pub east_s: i64,
}

impl fmt::Display for ZonelessTrigger {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, table, column, column_type, session_zone, .. } = self;
        let off = length(Duration::from_secs(self.east_s.unsigned_abs()));
        let here = match self.east_s {
            0 => format!("{session_zone} here, and another instant in a session of another zone"),
            1.. => format!("{session_zone} here, {off} early if the column has UTC"),
            _ => format!("{session_zone} here, {off} late if the column has UTC"),
        };
        write!(
            f,
            "the trigger {name} on {table} reads {column} ({column_type}) in the time zone of the session that writes the row: {here}"
        )
    }
}

/// The search for overdue orders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sweep {
    /// The effect has no `overdue_sql`.
    None,
    /// The plan for any limit and grace.
    Planned {
        /// Tables read from end to end although PostgreSQL was told to avoid it.
        scans: Vec<String>,
    },
}

/// The causes that keep VACUUM from removing rows that are deleted now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Horizon {
    /// The number of sessions whose details this user cannot see.
    pub hidden: u64,
    /// All visible causes, longest first.
    pub holders: Vec<Holder>,
}

/// A cause that holds back VACUUM.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The transaction, slot or standby.
    pub by: HeldBy,
    /// Time since the cause began; `None` if PostgreSQL does not record it.
    pub age: Option<Duration>,
    /// Transactions that have begun after the cause.
    pub transactions: u64,
}

/// The kinds of causes that hold back VACUUM.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as pg_stat_activity and its siblings call them")]
pub enum HeldBy {
    /// An open transaction.
    Session { pid: i32, user: String, application: String, state: String },
    /// A prepared transaction, neither committed nor rolled back.
    Prepared { gid: String, owner: String },
    /// The backlog of a standby or a subscriber; `catalogs` if it only keeps rows of the system catalogs.
    Slot { name: String, active: bool, catalogs: bool },
    /// A query on a standby with `hot_standby_feedback`.
    Standby { name: String, pid: i32 },
}
