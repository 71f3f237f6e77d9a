//! What is known about PostgreSQL, as data.

use std::{fmt, time::Duration};

use super::{Asked, Encryption, Gap, Skew};
use crate::{condition::obstacle::Attempt, doctor::effect_plan::EffectPlan, text::length};

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
    /// Whether overdue orders of each effect can be closed, by name; not tried where its SQL does not fit.
    pub attempts: Vec<(String, Asked<Attempt>)>,
    /// What holds back VACUUM.
    pub horizon: Asked<Horizon>,
    /// Its clock against this machine's.
    pub clock: Asked<Skew>,
}

impl DatabaseFacts {
    /// No session, and so nothing else.
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
            attempts: Vec::new(),
            horizon: Err(gap.clone()),
            clock: Err(gap),
        }
    }
}

/// What became of a connection to PostgreSQL.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Session {
    /// A pooler is between that keeps no prepared statements.
    Pooled(String),
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
    /// `lock_timeout` of a connection that closes orders; zero where it waits without end.
    pub lock_timeout_ms: i64,
    /// Behind a pooler that keeps what connections are opened with: the settings of it that the user lacks, with their values.
    pub behind_pooler: Option<Vec<(String, String)>>,
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
    pub fn only_read(tables: &[Self]) -> bool {
        let lacks = |table: &Self, privilege: &str| table.lacks.iter().any(|it| it == privilege);
        tables.iter().all(|table| {
            // Whoever is on call pauses and resumes.
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
    pub events: u64,
    /// Age of the oldest in milliseconds, by the database's clock.
    pub oldest_ms: u64,
    /// Events that the broker refuses or does not confirm, and those behind them.
    pub refused: u64,
    /// The event name of which that has been so for the longest time.
    pub longest: Option<RefusedName>,
    /// Events that can never be published.
    pub unpublishable: u64,
    /// Why one of them cannot.
    pub unpublishable_reason: Option<String>,
}

/// An event name that the broker refuses or does not confirm.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefusedName {
    /// The name.
    pub event: String,
    /// For how many milliseconds, by the database's clock.
    pub lasts_ms: u64,
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
    pub notices: u64,
    /// Age of the oldest in milliseconds, by the database's clock.
    pub oldest_ms: u64,
    /// Notices that were set aside.
    pub refused: u64,
    /// Why one of them was.
    pub reason: Option<String>,
    /// The timeout of the oldest notice.
    pub timeout: Option<String>,
    /// Triggers whose deadlines depend on the time zone of a session.
    pub zoneless: Vec<ZonelessTrigger>,
}

/// A trigger that calls `schedule_row()` without a time zone, for a column that has none. Names are as SQL has them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ZonelessTrigger {
    /// Its name.
    pub name: String,
    /// Its table.
    pub table: String,
    /// The column of the deadline.
    pub column: String,
    /// The type of that.
    pub column_type: String,
    /// The statement that makes it again, with the zone UTC.
    pub write: String,
    /// The time zone of the session that was asked.
    pub session_zone: String,
    /// How many seconds it is ahead of UTC.
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

/// What keeps VACUUM from removing rows that are deleted from now on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Horizon {
    /// Sessions of other users of which it cannot be seen.
    pub hidden: u64,
    /// All that can be seen, the longest first.
    pub holders: Vec<Holder>,
}

/// One of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// Who it is.
    pub by: HeldBy,
    /// For how long; `None` where PostgreSQL does not say.
    pub age: Option<Duration>,
    /// Transactions that have begun since.
    pub transactions: u64,
}

/// Who can hold back VACUUM.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "as pg_stat_activity and its siblings call them")]
pub enum HeldBy {
    /// A transaction that is open.
    Session { pid: i32, user: String, application: String, state: String },
    /// One that was prepared, and neither committed nor rolled back.
    Prepared { gid: String, owner: String },
    /// What a standby or a subscriber has not read yet; `catalogs` if it is about rows of the system catalogs alone.
    Slot { name: String, active: bool, catalogs: bool },
    /// A query on a standby with `hot_standby_feedback`.
    Standby { name: String, pid: i32 },
}
