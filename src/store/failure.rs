//! Classes of PostgreSQL failures, and the advice for each.

use std::time::Duration;

use tokio_postgres::error::{ErrorPosition, Severity, SqlState};

use super::contract::Misfit;
use crate::decisions::bisection::{Failure, FailureScope};

/// SQLSTATE of a cancelled statement; the statement time-out also gives it.
pub(crate) const CANCELLED: &str = "57014";

/// The class of a failure, which decides how the caller reacts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// Another session was in the way (deadlock, lock time-out, serialisation): retry the same.
    Contention,
    /// The database is unavailable, restarting, or read-only: wait, then open a new connection.
    Unavailable,
    /// The database is overloaded (disk, memory, connections, statement time-out) or cannot read its files: wait longer.
    Overloaded,
    /// A row of the batch may be the cause: find it, and leave the others alone.
    Row,
    /// Login, permissions, missing or other tables: a person must change something.
    Configuration,
}

/// Maps an SQLSTATE to a kind. Without a code the connection broke.
///
/// The listed codes can occur without any fault of a row. A single row may cause any other code, including codes that an order
/// service has defined.
///
/// Classes: <https://www.postgresql.org/docs/current/errcodes-appendix.html>
pub fn kind_of(code: Option<&SqlState>) -> FailureKind {
    let Some(code) = code.map(SqlState::code) else { return FailureKind::Unavailable };
    match code {
        "40001" | "40P01" | "55P03" => FailureKind::Contention,
        "25P03" | "25006" | "26000" | "0A000" => FailureKind::Unavailable,
        // A disk or a table cannot be read, whatever the order.
        CANCELLED | "58000" | "58030" | "XX001" | "XX002" => FailureKind::Overloaded,
        _ if code.starts_with("57P0") => FailureKind::Unavailable,
        _ => match code.get(..2).unwrap_or_default() {
            "08" => FailureKind::Unavailable,
            "53" => FailureKind::Overloaded,
            "28" | "42" | "3D" | "3F" => FailureKind::Configuration,
            _ => FailureKind::Row,
        },
    }
}

/// Prefix of the place of SQL that is part of the program.
pub(super) const BUILT_IN: &str = "built in, ";

/// The next step for SQL that a team wrote for its own tables.
fn effect_advice(code: &SqlState) -> Option<&'static str> {
    match code.code() {
        "3F000" | "42P01" => Some(
            "tables are looked for along database.search_path: correct the name in the SQL, or add its schema there; \
             closures and outbox come from `overdue database init`",
        ),
        "42703" => {
            Some("correct the name of the column in the SQL, or look at database.search_path")
        }
        "42804" | "42883" => Some(
            "order ids are text: for keys of another type write $1::text[]::bigint[] (or ::uuid[]), and id::text AS \
             order_id; see docs/effects.md",
        ),
        "42P18" => Some("write the type behind the parameter: $1::text[], $2::text"),
        "42601" => Some("an effect is one statement; see docs/effects.md"),
        "42501" => Some("grant the user of database.url what the SQL does with its tables"),
        _ => None,
    }
}

/// The next step for SQL that is part of the program.
fn built_in_advice(code: &SqlState) -> Option<&'static str> {
    match code.code() {
        "42P01" => Some(
            "run `overdue database init` (with --reference-tables if there are no order tables yet), or point \
             database.search_path at the schemas that hold the tables; for order tables of your own `overdue init` writes \
             an effect to start from (docs/your-own-tables.md)",
        ),
        "42703" | "42804" | "42883" => Some(
            "the built-in effects are for the reference tables: for tables of your own `overdue init` writes an effect to \
             start from (docs/your-own-tables.md); or correct database.search_path",
        ),
        _ => None,
    }
}

/// Prefixes of the names of statements on the tables of `overdue`.
const OURS: [&str; 6] = ["outbox_", "schedule_", "status_closures", "history", "parked_", "pauses"];

/// The line of the character at `position`, both counted from 1.
fn line_of(sql: &str, position: u32) -> usize {
    let before = usize::try_from(position).unwrap_or(usize::MAX).saturating_sub(1);
    1 + sql.chars().take(before).filter(|c| *c == '\n').count()
}

/// The text that contains the character at `position` of `sql`, and the position in that text, both counted from 1.
fn place_in<'a>(sql: &str, position: u32, texts: &[&'a str]) -> Option<(usize, &'a str)> {
    let at = usize::try_from(position).ok()?;
    texts.iter().find_map(|text| {
        let before = sql[..sql.find(text)?].chars().count();
        let place = at.checked_sub(before).filter(|it| *it > 0)?;
        (place <= text.chars().count()).then_some((place, *text))
    })
}

/// A failure of the store.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are what the text says of them")]
pub enum StoreError {
    /// The URL cannot be read.
    #[error(
        "database.url cannot be used: {0}; write it like postgres://user:password@host:5432/database"
    )]
    Address(String),
    /// A schema's name is not plain.
    #[error(
        "database.search_path: `{0}` is not a plain schema name (lower-case letters, digits and `_`)"
    )]
    SearchPath(String),
    /// The connection failed.
    #[error("cannot connect to PostgreSQL at {address}")]
    Connect { address: String, source: tokio_postgres::Error },
    /// TLS cannot be set up, or the handshake failed.
    #[error("no TLS connection to PostgreSQL at {address}: {reason}")]
    Tls { address: String, reason: String },
    /// The encoding is `SQL_ASCII`: texts can contain any bytes.
    #[error(
        "the database at {address} has the encoding SQL_ASCII, so the characters of an order id are unknown: create \
         one with CREATE DATABASE ... ENCODING 'UTF8' TEMPLATE template0, and load a dump into it"
    )]
    Encoding { address: String },
    /// A pooler gives each transaction to any session, and does not keep prepared statements.
    #[error(
        "a pooler in transaction mode at {address} does not keep prepared statements, so one would be executed for another: set \
         max_prepared_statements = 200 there (PgBouncer 1.21 or newer), or pool_mode = session (docs/settings.md)"
    )]
    NoPreparedStatements { address: String },
    /// The server stopped answering without closing its connections.
    #[error("PostgreSQL at {address} does not answer any more, and has not closed the connection")]
    Silent { address: String },
    /// The pool gave no connection in time.
    #[error("no connection to PostgreSQL at {address}: {reason}")]
    Pool { address: String, reason: String },
    /// The server answers, but is read-only.
    #[error(
        "PostgreSQL at {address} takes no writes (a standby, or default_transaction_read_only is on); \
         if there is another host, add target_session_attrs=read-write to database.url"
    )]
    ReadOnly { address: String },
    /// A statement failed.
    #[error("statement `{statement}` failed at {address}")]
    Statement { statement: &'static str, address: String, source: tokio_postgres::Error },
    /// A name was not found, and the user may not use these schemas.
    #[error(
        "{user} may not use {schemas} of database.search_path at {address}, and so finds no table there: \
         GRANT USAGE ON SCHEMA {schemas} TO {user}; `overdue permissions --database` prints the grants of each user"
    )]
    ClosedSchema { user: String, schemas: String, address: String, source: tokio_postgres::Error },
    /// Tables were not dropped because they were written to after they were shown.
    #[error(
        "the tables at {address} were written to after they were shown, and none of them was dropped: now {now}; stop what \
         writes, and run this again"
    )]
    RowsChanged { address: String, now: String },
    /// The SQL of an effect failed; `place` is its file, and the line if PostgreSQL reports one.
    #[error("effect `{effect}` ({place}) failed at {address}")]
    EffectStatement {
        effect: String,
        place: String,
        address: String,
        source: tokio_postgres::Error,
    },
    /// The timeout is paused: `rest` is the remaining time. While it is resumed, `per_second` limits the orders per second, and the
    /// orders of one transaction.
    #[error("no order is closed: {reason}")]
    Paused { rest: Duration, reason: String, per_second: Option<usize> },
    /// The SQL of an effect has wrong parameters or columns.
    #[error("the SQL of effect `{effect}` ({file}) does not fit: {reason}; see docs/effects.md")]
    Effect { effect: String, file: String, reason: String },
    /// An effect with new terms would close more than ten rows at once.
    #[error(
        "effect `{effect}` ({place}) closes nothing yet: more than ten rows are overdue, and {change}. `overdue effect accept {effect}` \
         shows them and lets it close them; with `since` in the description it leaves earlier deadlines alone"
    )]
    Unaccepted { effect: String, place: String, change: String },
    /// The tables are not the reference tables, which the built-in effect needs.
    #[error(
        "effect `{effect}` is built in, for the reference tables, and these are others ({found}): \
         `overdue init` writes an effect for tables of your own to start from (docs/your-own-tables.md); or correct \
         database.search_path"
    )]
    BuiltIn { effect: String, found: String },
}

impl StoreError {
    /// The class of this failure.
    pub fn kind(&self) -> FailureKind {
        match self {
            Self::Address(_)
            | Self::SearchPath(_)
            | Self::Effect { .. }
            | Self::BuiltIn { .. }
            | Self::Unaccepted { .. }
            | Self::Encoding { .. }
            | Self::NoPreparedStatements { .. }
            | Self::Tls { .. } => FailureKind::Configuration,
            Self::Connect { source, .. }
            | Self::ClosedSchema { source, .. }
            | Self::Statement { source, .. }
            | Self::EffectStatement { source, .. } => kind_of(source.code()),
            Self::Pool { .. }
            | Self::ReadOnly { .. }
            | Self::Silent { .. }
            | Self::Paused { .. } => FailureKind::Unavailable,
            Self::RowsChanged { .. } => FailureKind::Contention,
        }
    }

    /// The SQLSTATE, if the server sent one.
    pub fn code(&self) -> Option<&SqlState> {
        match self {
            Self::Connect { source, .. } => source.code(),
            _ => self.answered()?.code(),
        }
    }

    /// The error that the server sent for a statement.
    const fn answered(&self) -> Option<&tokio_postgres::Error> {
        match self {
            Self::Statement { source, .. }
            | Self::ClosedSchema { source, .. }
            | Self::EffectStatement { source, .. } => Some(source),
            _ => None,
        }
    }

    /// Adds the effect, its file and the line of the mistake to a failed statement.
    pub(super) fn in_effect(self, effect: &str, file: &str, sql: &str) -> Self {
        let Self::Statement { address, source, .. } = self else { return self };
        let line = source.as_db_error().and_then(|error| match error.position() {
            // Users cannot open SQL that is part of the program, so it gets no line.
            Some(ErrorPosition::Original(position)) if !file.starts_with(BUILT_IN) => {
                Some(line_of(sql, *position))
            }
            _ => None,
        });
        let line = line.map_or_else(String::new, |line| format!(", line {line}"));
        let (effect, place) = (effect.to_owned(), format!("{file}{line}"));
        Self::EffectStatement { effect, place, address, source }
    }

    /// Whether the server sent an error and the connection continues. Only such an error can concern a row, because a trigger may
    /// raise any SQLSTATE.
    pub fn is_answer(&self) -> bool {
        let Some(source) = self.answered() else { return false };
        source.as_db_error().is_some_and(|error| {
            !matches!(error.parsed_severity(), Some(Severity::Fatal | Severity::Panic))
        })
    }

    /// Whether the failure concerns this statement, and not the server: another statement can succeed.
    pub(crate) fn is_of_statement(&self) -> bool {
        let of_server = |code: &str| {
            matches!(code, "25006" | "25P03" | "26000")
                || ["08", "53", "57P0", "XX"].iter().any(|class| code.starts_with(class))
        };
        self.kind() == FailureKind::Configuration
            || self.is_answer() && !self.code().is_some_and(|code| of_server(code.code()))
    }

    /// Whether the prepared statements of the connection are useless: tables have changed, or a pooler has given the session to
    /// another client.
    pub fn is_stale(&self) -> bool {
        self.is_answer() && self.code().is_some_and(|code| matches!(code.code(), "0A000" | "26000"))
    }

    /// The remaining pause of the timeout, if that is why no order was closed.
    pub(crate) const fn paused(&self) -> Option<Duration> {
        match self {
            Self::Paused { rest, .. } => Some(*rest),
            _ => None,
        }
    }

    /// Whether the SQL of an effect breaks the contract.
    pub(crate) const fn is_misfit(&self) -> bool {
        matches!(self, Self::Effect { .. } | Self::BuiltIn { .. } | Self::Unaccepted { .. })
    }

    /// A mismatch of SQL; for built-in SQL the tables are wrong, because users cannot change the SQL.
    pub(super) fn misfit(effect: &str, file: &str, wrong: Misfit) -> Self {
        let effect = effect.to_owned();
        if file.starts_with(BUILT_IN) {
            return Self::BuiltIn { effect, found: wrong.found };
        }
        Self::Effect { effect, file: file.to_owned(), reason: wrong.to_string() }
    }

    /// The server's error, without statement and address.
    pub fn answer(&self) -> String {
        let Some(source) = self.answered() else { return crate::text::error_chain(self) };
        let code = source.code().map_or("none", SqlState::code);
        format!("SQLSTATE {code}: {}", crate::text::error_chain(source))
    }

    /// The server's message and hint, with the position of the mistake in one of `texts`, which are parts of `sql`.
    pub(super) fn refusal(&self, sql: &str, texts: &[&str]) -> String {
        let Some(error) = self.answered().and_then(|it| it.as_db_error()) else {
            return crate::text::error_chain(self);
        };
        let place = match error.position() {
            Some(ErrorPosition::Original(position)) => place_in(sql, *position, texts),
            _ => None,
        };
        let place = place.map_or_else(String::new, |(at, text)| {
            format!(", at character {at} of `{}`", crate::text::one_line(text))
        });
        let hint = error.hint().map_or_else(String::new, |it| format!("; {it}"));
        format!("{}{place}{hint}", error.message())
    }

    /// The failure of an order that was tried alone.
    pub(crate) fn alone(&self) -> Failure {
        let cause = self.code().map_or("none", SqlState::code).to_owned();
        let suspect = match self.kind() {
            FailureKind::Contention => FailureScope::Lock,
            FailureKind::Row | FailureKind::Configuration => FailureScope::Order,
            FailureKind::Overloaded if cause == CANCELLED => FailureScope::Slow,
            FailureKind::Overloaded | FailureKind::Unavailable => FailureScope::Server,
        };
        Failure { suspect, cause, reason: self.answer() }
    }

    /// Whether a lock was not available within `lock_timeout`.
    pub fn is_lock_timeout(&self) -> bool {
        self.code() == Some(&SqlState::LOCK_NOT_AVAILABLE)
    }

    /// Whether a login or a permission is missing.
    pub fn is_permission(&self) -> bool {
        if matches!(self, Self::ClosedSchema { .. }) {
            return true;
        }
        self.code().is_some_and(|code| code.code().starts_with("28") || code.code() == "42501")
    }

    fn is_of_pauses(&self) -> bool {
        matches!(self, Self::Statement { statement: "pauses_refuse", .. })
    }

    fn is_about_our_tables(&self) -> bool {
        let Self::Statement { statement, .. } = self else { return false };
        OURS.iter().any(|prefix| statement.starts_with(prefix))
    }

    /// The next step for a person, if the SQLSTATE shows one.
    pub fn advice(&self) -> Option<&'static str> {
        if matches!(self, Self::Connect { source, .. } if source.code().is_none()) {
            return Some("is it running, and is database.url right?");
        }
        let code = self.code()?;
        match self {
            Self::ClosedSchema { .. } => return None,
            Self::Statement { statement: "database_init" | "schedule_known", .. }
                if code.code() == "42501" =>
            {
                return Some(
                    "run it as the owner of the tables; at first a superuser makes the schema for it, CREATE SCHEMA ... \
                     AUTHORIZATION ...: `overdue permissions --database` prints the statement",
                );
            }
            Self::Statement { statement: "drop_own", .. } if self.is_lock_timeout() => {
                return Some(
                    "a transaction uses one of the tables, and none of them was dropped: stop order services and workers, \
                     look at pg_stat_activity, and run this again",
                );
            }
            Self::EffectStatement { place, .. } if !place.starts_with(BUILT_IN) => {
                return effect_advice(code);
            }
            Self::EffectStatement { .. } if built_in_advice(code).is_some() => {
                return built_in_advice(code);
            }
            _ => {}
        }
        match code.code() {
            "42883" if self.is_of_pauses() => Some(
                "the tables belong to an older version: run `overdue database init` (docs/stability.md)",
            ),
            "42703" | "42804" | "42883" if self.is_about_our_tables() => Some(
                "the tables belong to an older version: run `overdue database init` (docs/stability.md); or tables of another \
                 program have these names: put a schema for overdue first in database.search_path",
            ),
            "28P01" | "28000" => Some("check the user and password in database.url"),
            "3D000" => Some("create the database with `createdb`, or correct database.url"),
            "3F000" | "42P01" => Some(
                "run `overdue database init` (with --reference-tables if there are no order tables yet), or point \
                 database.search_path at the schemas that hold the tables",
            ),
            "42601" => Some(
                "check the SQL files that overdue.toml names in [effects]: see docs/effects.md",
            ),
            "42703" | "42804" | "42883" => Some(
                "the tables have another shape than the SQL expects: see docs/effects.md, or correct database.search_path",
            ),
            "42501" => Some("`overdue permissions --database` prints the grants of each user"),
            "53300" => Some("raise max_connections, or lower worker.in_flight"),
            _ => None,
        }
    }
}
