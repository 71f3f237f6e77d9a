//! Sessions and slots that hold back PostgreSQL's xmin horizon. Meanwhile deleted rows stay in tables and indexes, and each poll that reads
//! a table from its beginning reads them again.

use std::time::Duration;

use super::facts::{Facts, HeldBy, Holder, Horizon, known};
use crate::{
    diagnostic::Draft,
    text::{about, counted},
};

/// Reports, and backups of a small database, end within this time. At 1,000 orders per second, the rows that are dead after it are read in
/// less than a tenth of a second.
const LONG: Duration = Duration::from_mins(5);
/// The limit if PostgreSQL records no time: five minutes of more than 3,000 transactions per second.
const MANY_TRANSACTIONS: u64 = 1_000_000;
/// Causes named in the line; the others are counted.
const NAMED: usize = 3;

/// Can VACUUM remove deleted rows?
pub(crate) fn xmin_horizon(facts: &Facts) -> Draft {
    known(&facts.database.horizon, judge_horizon)
}

/// Names the causes that last for long, longest first; the fix is for the first.
pub fn judge_horizon(horizon: &Horizon) -> Draft {
    let long: Vec<&Holder> = horizon.holders.iter().filter(|holder| is_long(holder)).collect();
    let hidden = match horizon.hidden {
        0 => None,
        hidden => Some(format!("{} of other users cannot be seen", counted(hidden, "session"))),
    };
    let Some(first) = long.first() else {
        let ok = format!("nothing has held back VACUUM for {}", about(LONG));
        return match hidden {
            None => Draft::ok(ok),
            Some(hidden) => Draft::warning(
                format!("not known: {hidden}"),
                "GRANT pg_read_all_stats TO the user of database.url, as a superuser",
            ),
        };
    };
    let named: Vec<String> = long.iter().take(NAMED).map(|holder| said(holder)).collect();
    let more = match long.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!("; and {more} more"),
    };
    let hidden = hidden.map(|hidden| format!("; {hidden}")).unwrap_or_default();
    Draft::warning(
        format!("VACUUM removes no row that was deleted since: {}{more}{hidden}", named.join("; ")),
        fix(first),
    )
}

fn is_long(holder: &Holder) -> bool {
    // An active slot or a standby has no age, because it moves forward: the number of transactions counts.
    holder.age.is_some_and(|age| age >= LONG) || holder.transactions >= MANY_TRANSACTIONS
}

/// `pid 4711 (reports, user shop), idle in transaction for 12m`.
fn said(Holder { by, age, transactions }: &Holder) -> String {
    let lasts = age.map_or_else(
        || format!("for {}", counted(*transactions, "transaction")),
        |age| format!("for {}", about(age)),
    );
    match by {
        HeldBy::Session { pid, user, application, state } => {
            let comma = if application.is_empty() || user.is_empty() { "" } else { ", " };
            let user = if user.is_empty() { String::new() } else { format!("user {user}") };
            format!("pid {pid} ({application}{comma}{user}), {state} {lasts}")
        }
        HeldBy::Prepared { gid, owner } => {
            format!("prepared transaction {} of {owner}, {lasts}", literal(gid))
        }
        HeldBy::Slot { name, active, catalogs } => {
            let active = if *active { "in use" } else { "not in use" };
            let catalogs = if *catalogs { " (rows of the system catalogs alone)" } else { "" };
            format!("replication slot {name}, {active}, {lasts}{catalogs}")
        }
        HeldBy::Standby { name, pid } => {
            format!("standby {name} (hot_standby_feedback, pid {pid}), {lasts}")
        }
    }
}

/// The statement that ends the cause, and who may run it.
fn fix(holder: &Holder) -> String {
    match &holder.by {
        HeldBy::Session { pid, user, state, .. } => {
            let end = format!(
                "SELECT pg_terminate_backend({pid}), as {user} or with pg_signal_backend (a superuser's takes a superuser)"
            );
            if state.starts_with("idle in transaction") {
                return format!(
                    "{end}; so that it ends next time: ALTER ROLE {user} SET idle_in_transaction_session_timeout = '1min'"
                );
            }
            format!("wait until it ends, or {end}")
        }
        HeldBy::Prepared { gid, owner } => format!(
            "COMMIT PREPARED {gid} or ROLLBACK PREPARED {gid}, as {owner} or a superuser: what prepared it knows which",
            gid = literal(gid)
        ),
        HeldBy::Slot { name, active: false, .. } => format!(
            "start what reads it, or, if that is gone for good, SELECT pg_drop_replication_slot({}), with REPLICATION",
            literal(name)
        ),
        HeldBy::Slot { .. } | HeldBy::Standby { .. } => {
            "end the long query on the standby (pg_stat_activity there), or set hot_standby_feedback = off there".to_owned()
        }
    }
}

/// A name as an SQL literal.
fn literal(name: &str) -> String {
    format!("'{}'", name.replace('\'', "''"))
}
