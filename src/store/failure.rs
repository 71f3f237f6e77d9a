//! What a PostgreSQL failure means for the one who asked.

use tokio_postgres::error::{Severity, SqlState};

/// What is to be done about a failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Somebody else was in the way (deadlock, lock time-out, serialisation): the same again.
    Contention,
    /// The database is unavailable, restarting, or read-only: wait, then a new connection.
    Unavailable,
    /// It is overloaded (disk, memory, connections, statement time-out): wait longer.
    Overloaded,
    /// A row of the batch can be what fails: find it, leave the others alone.
    Row,
    /// Login, permissions, missing or other tables: a person has to change something.
    Configuration,
}

/// Sorts an SQLSTATE; no code at all means that the connection broke.
///
/// What is listed is what can be nobody's fault. Everything else, codes that an order service has made up included, can
/// be the fault of a single row.
///
/// Classes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>
#[must_use]
pub fn kind_of(code: Option<&SqlState>) -> FailureKind {
    let Some(code) = code.map(SqlState::code) else { return FailureKind::Unavailable };
    match code {
        "40001" | "40P01" | "55P03" => FailureKind::Contention,
        "25P03" | "25006" | "26000" | "0A000" => FailureKind::Unavailable,
        "57014" => FailureKind::Overloaded,
        _ if code.starts_with("57P0") => FailureKind::Unavailable,
        _ => match code.get(..2).unwrap_or_default() {
            "08" => FailureKind::Unavailable,
            "53" => FailureKind::Overloaded,
            "28" | "42" | "3D" | "3F" => FailureKind::Configuration,
            _ => FailureKind::Row,
        },
    }
}

/// Why the store did not do what was asked.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the text says of them")]
pub enum StoreError {
    /// The URL cannot be read.
    #[error(
        "database.url cannot be used: {0}; write it like postgres://user:password@host:5432/database"
    )]
    Address(String),
    /// A schema's name cannot be used as it is.
    #[error(
        "database.search_path: `{0}` is not a plain schema name (lower-case letters, digits and `_`)"
    )]
    SearchPath(String),
    /// No connection.
    #[error("cannot connect to PostgreSQL at {address}")]
    Connect { address: String, source: tokio_postgres::Error },
    /// TLS cannot be set up, or the handshake failed.
    #[error("no TLS connection to PostgreSQL at {address}: {reason}")]
    Tls { address: String, reason: String },
    /// It has stopped answering, and has not closed its connections.
    #[error("PostgreSQL at {address} does not answer any more, and has not closed the connection")]
    Silent { address: String },
    /// The pool gave none in time.
    #[error("no connection to PostgreSQL at {address}: {reason}")]
    Pool { address: String, reason: String },
    /// It answers, and cannot be written to.
    #[error(
        "PostgreSQL at {address} takes no writes (a standby, or default_transaction_read_only is on); \
         if there is another host, add target_session_attrs=read-write to database.url"
    )]
    ReadOnly { address: String },
    /// A statement failed.
    #[error("statement `{statement}` failed at {address}")]
    Statement { statement: &'static str, address: String, source: tokio_postgres::Error },
    /// The SQL of an effect has other parameters or columns than it should.
    #[error("the SQL of effect `{effect}` ({file}) does not fit: {reason}; see docs/effects.md")]
    Effect { effect: String, file: String, reason: String },
}

impl StoreError {
    /// What is to be done about it.
    #[must_use]
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Address(_) | Self::SearchPath(_) | Self::Effect { .. } | Self::Tls { .. } => {
                FailureKind::Configuration
            }
            Self::Connect { source, .. } | Self::Statement { source, .. } => kind_of(source.code()),
            Self::Pool { .. } | Self::ReadOnly { .. } | Self::Silent { .. } => {
                FailureKind::Unavailable
            }
        }
    }

    /// The SQLSTATE, where the server gave one.
    #[must_use]
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Connect { source, .. } | Self::Statement { source, .. } => source.code(),
            _ => None,
        }
    }

    /// Whether the server has answered with an error and the connection goes on. Only then it can be about a row: a
    /// trigger may raise any SQLSTATE there is.
    #[must_use]
    pub fn is_answer(&self) -> bool {
        let Self::Statement { source, .. } = self else { return false };
        source.as_db_error().is_some_and(|error| {
            !matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        })
    }

    /// Whether what was prepared on the connection is of no more use: tables have changed, or a pooler between has
    /// given the session to somebody else.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.is_answer() && self.code().is_some_and(|code| matches!(code.code(), "0A000" | "26000"))
    }

    /// Whether the SQL of an effect is not as agreed.
    pub(crate) const fn is_misfit(&self) -> bool {
        matches!(self, Self::Effect { .. })
    }

    /// What the server said, without where it was asked.
    #[must_use]
    pub fn answer(&self) -> String {
        let Self::Statement { source, .. } = self else { return crate::text::error_chain(self) };
        let code = source.code().map_or("none", SqlState::code);
        format!("SQLSTATE {code}: {}", crate::text::error_chain(source))
    }

    /// Whether a lock was not available within `lock_timeout`.
    #[must_use]
    pub fn is_lock_timeout(&self) -> bool {
        self.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether login or a permission is what is missing.
    #[must_use]
    pub fn is_permission(&self) -> bool {
        self.code().is_some_and(|code| code.code().starts_with("28") || code.code() == "42501")
    }

    /// The next step for a person, where the SQLSTATE shows it.
    #[must_use]
    pub fn advice(&self) -> Option<&'static str> {
        if matches!(self, Self::Connect { source, .. } if source.code().is_none()) {
            return Some("is it running, and is database.url right?");
        }
        match self.code()?.code() {
            "28P01" | "28000" => Some("check the user and password in database.url"),
            "3D000" => Some("create the database with `createdb`, or correct database.url"),
            "3F000" | "42P01" => Some(
                "run `overdue database init` (with --reference-tables where nobody has order tables yet), or point \
                 database.search_path at the schemas that hold the tables",
            ),
            "42601" => Some(
                "check the SQL files that overdue.toml names in [effects]: see docs/effects.md",
            ),
            "42703" | "42804" | "42883" => Some(
                "the tables have another shape than the SQL expects: see docs/effects.md, or correct database.search_path",
            ),
            "42501" => Some(
                "grant the user of database.url SELECT, INSERT, UPDATE and DELETE on the tables",
            ),
            "53300" => Some("raise max_connections, or lower worker.in_flight"),
            _ => None,
        }
    }
}
