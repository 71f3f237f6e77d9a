//! The connection to PostgreSQL and the server behind it.

use super::{
    broker::judge_tls,
    facts::{Facts, NO_SESSION, Server, Session},
};
use crate::diagnostic::Draft;

/// Does anybody answer?
pub(crate) fn reachable(facts: &Facts) -> Draft {
    match &facts.database.session {
        Session::Unreachable(reason) => Draft::error(
            reason.clone(),
            "start PostgreSQL, or correct database.url (OVERDUE_DATABASE__URL)",
        ),
        _ => Draft::ok(format!("{} answers", facts.database.address)),
    }
}

/// May the user log in, and is the database there?
pub(crate) fn login(facts: &Facts) -> Draft {
    match &facts.database.session {
        Session::Unreachable(_) => Draft::warning("not known: no connection", NO_SESSION),
        Session::LoginRefused(reason) => Draft::error(
            reason.clone(),
            "correct user, password and database in database.url, or create them",
        ),
        Session::Open(_) => Draft::ok("the user logs in"),
    }
}

/// Does the connection go over TLS, where it leaves the machine?
pub(crate) fn tls(facts: &Facts) -> Draft {
    let fix = ["add sslmode=verify-full to database.url", "sslrootcert"];
    server(facts, |server| judge_tls(server.tls, facts.database.loopback, fix))
}

/// Is this a version that was tested?
pub(crate) fn version(facts: &Facts) -> Draft {
    server(facts, |server| judge_version(server.version_num))
}

/// 14 and later are maintained; 12 is the first with everything that is used.
pub fn judge_version(number: i32) -> Draft {
    let (major, minor) = (number / 10_000, number % 10_000);
    match major {
        14.. => Draft::ok(format!("PostgreSQL {major}.{minor}")),
        12..14 => Draft::warning(
            format!(
                "PostgreSQL {major}.{minor} is out of maintenance, and overdue is not tested on it"
            ),
            "upgrade to PostgreSQL 14 or later",
        ),
        _ => Draft::error(
            format!("PostgreSQL {number} is too old for the statements of overdue"),
            "upgrade to PostgreSQL 14 or later",
        ),
    }
}

/// Is it the primary?
pub(crate) fn writable(facts: &Facts) -> Draft {
    server(facts, |server| match (server.standby, server.read_only) {
        (true, _) => Draft::error(
            "it is a standby, which only reads",
            "add target_session_attrs=read-write to database.url",
        ),
        (false, true) => Draft::error(
            "transactions are read-only",
            "ALTER ROLE or DATABASE ... SET default_transaction_read_only = off",
        ),
        (false, false) => Draft::ok("yes"),
    })
}

/// Are there connections for a worker, and for the next one that takes its place?
pub(crate) fn connections(facts: &Facts) -> Draft {
    server(facts, |server| judge_connections(server, facts.connections))
}

/// Workers that are running count as used; a rolling update has one more for a while.
pub fn judge_connections(server: &Server, per_worker: usize) -> Draft {
    let per_worker = i64::try_from(per_worker).unwrap_or(i64::MAX).max(1);
    let usable = server.max_connections.saturating_sub(server.reserved);
    let free = usable.saturating_sub(server.used).max(0);
    let finding = format!(
        "{free} of {usable} free; a worker takes up to {per_worker} (database.connections)"
    );
    match free / per_worker {
        0 if usable < per_worker => Draft::error(finding, FEWER),
        0 => Draft::warning(finding, FEWER),
        _ => Draft::ok(finding),
    }
}

const FEWER: &str = "lower database.connections, raise max_connections, or put a pooler between";

/// A note: with it on, PostgreSQL says when an order was closed, independently of what the row says.
pub(crate) fn commit_timestamps(facts: &Facts) -> Draft {
    server(facts, |server| {
        Draft::ok(if server.commit_timestamps {
            "on: pg_xact_commit_timestamp says when an order was closed"
        } else {
            "off; overdue does without (track_commit_timestamp)"
        })
    })
}

fn server(facts: &Facts, judge: impl FnOnce(&Server) -> Draft) -> Draft {
    match &facts.database.session {
        Session::Open(server) => judge(server),
        _ => Draft::warning("not known: no session", NO_SESSION),
    }
}
