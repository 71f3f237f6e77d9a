//! PostgreSQL: the connection and its server; the worker's tables, effects, sweep index and outbox, and the notices that
//! order services write with `schedule()`.

use std::time::Duration;

use super::{
    broker::judge_tls,
    effect_plan::EffectPlan,
    facts::{
        Facts, NO_SESSION, Outbox, Probed, RefusedName, Scheduled, Schema, Server, Session, Sweep,
        Table, User, ZonelessTrigger, known,
    },
};
use crate::{
    condition::{
        self,
        obstacle::{Attempt, Kind, Obstacle},
    },
    diagnostic::Draft,
    text::sql::identifier,
    text::{about, counted},
};

/// Does the server answer?
pub(crate) fn reachable(facts: &Facts) -> Draft {
    match &facts.database.session {
        Session::Unreachable(reason) => Draft::error(
            reason.clone(),
            "start PostgreSQL, or correct database.url (OVERDUE_DATABASE__URL)",
        ),
        _ => Draft::ok(format!("{} answers", facts.database.address)),
    }
}

/// May the user log in, and does the database exist?
pub(crate) fn login(facts: &Facts) -> Draft {
    match &facts.database.session {
        Session::Unreachable(_) => Draft::warning("not known: no connection", NO_SESSION),
        Session::Pooled(reason) => Draft::error(
            reason.clone(),
            "change the pooler, or write the URL of the server itself into database.url",
        ),
        Session::LoginRefused(reason) => Draft::error(
            reason.clone(),
            "correct user, password and database in database.url, or create them",
        ),
        Session::Open(Server { user: User::Other(user), .. }) => {
            Draft::ok(format!("user {user} logs in"))
        }
        Session::Open(Server { user: User::Super(user), .. }) => Draft::ok(format!(
            "user {user} logs in, a superuser: what the user of a worker lacks does not show here"
        )),
    }
}

/// Does the connection use TLS if it leaves the machine?
pub(crate) fn tls(facts: &Facts) -> Draft {
    let fix = ["add sslmode=verify-full to database.url", "sslrootcert"];
    server(facts, |server| judge_tls(server.tls, facts.database.loopback, fix))
}

/// Is `overdue` tested with this version?
pub(crate) fn version(facts: &Facts) -> Draft {
    server(facts, |server| judge_version(server.version_num))
}

/// Version 14 is the first with all features in use (SQL functions with a standard body).
fn judge_version(number: i32) -> Draft {
    let (major, minor) = (number / 10_000, number % 10_000);
    if major >= 14 {
        return Draft::ok(format!("PostgreSQL {major}.{minor}"));
    }
    Draft::error(
        format!("PostgreSQL {major} is too old for the statements of overdue"),
        "upgrade to PostgreSQL 14 or later",
    )
}

/// Is the server the primary?
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

/// Are there enough connections for a worker, and for its successor?
pub(crate) fn connections(facts: &Facts) -> Draft {
    server(facts, |server| judge_connections(server, facts.connections))
}

/// Running workers count as used; a rolling update has another worker for a while.
fn judge_connections(server: &Server, per_worker: usize) -> Draft {
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

/// Does a connection that closes orders have its lock time-out?
pub(crate) fn lock_timeout(facts: &Facts) -> Draft {
    server(facts, |server| judge_lock_timeout(server.lock_timeout_ms))
}

/// The upper bound of good lock time-outs: a role may set its own, shorter or slightly longer.
const MOST_LOCK_TIMEOUT_MS: i64 = 300;

/// A pooler in transaction mode drops the start-up options of a connection.
fn judge_lock_timeout(ms: i64) -> Draft {
    let finding = match ms {
        1..=MOST_LOCK_TIMEOUT_MS => {
            return Draft::ok(format!("statements that close orders wait for a lock for {ms} ms"));
        }
        0 => "statements that close orders wait for a lock until it is free".to_owned(),
        _ => format!("statements that close orders wait for a lock for {ms} ms"),
    };
    Draft::warning(
        format!("{finding}, and so do all orders of their batch"),
        "a pooler passes on no start-up options: ALTER ROLE ... SET lock_timeout = '50ms' (docs/settings.md)",
    )
}

/// If there is a pooler, does the user have the settings that a worker's start-up options would set?
pub(crate) fn pooler(facts: &Facts) -> Draft {
    server(facts, judge_pooler)
}

/// Without the search path, statements find other tables or none. Without the other settings, statements are slow or late.
pub fn judge_pooler(server: &Server) -> Draft {
    let (User::Super(user) | User::Other(user)) = &server.user;
    let Some(lacking) = &server.behind_pooler else {
        return Draft::ok("the server has the options that connections are opened with");
    };
    if lacking.is_empty() {
        return Draft::ok(format!(
            "a pooler drops the options of connections; user {user} has them"
        ));
    }
    let names: Vec<&str> = lacking.iter().map(|(name, _)| name.as_str()).collect();
    let set = |(name, value): &(String, String)| {
        format!("ALTER ROLE {user} SET {name} = {}", value.replace(',', ", "))
    };
    let fixes: Vec<String> = lacking.iter().map(set).collect();
    let finding = format!(
        "a pooler drops the options of connections; user {user} lacks {}",
        names.join(", ")
    );
    let fix = format!("{} (docs/settings.md)", fixes.join("; "));
    if names.contains(&"search_path") {
        Draft::error(finding, fix)
    } else {
        Draft::warning(finding, fix)
    }
}

const FEWER: &str = "lower database.connections, raise max_connections, or put a pooler between";

/// Informs only: with commit timestamps, PostgreSQL knows when an order was closed, independently of the row.
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

/// Do the tables of `overdue` exist, and may the user access them?
pub(crate) fn ours(facts: &Facts) -> Draft {
    known(&facts.database.tables, |tables| {
        known(&facts.database.schemas, |schemas| judge_tables(tables, schemas))
    })
}

/// The command that prints the grants.
const GRANTS: &str = "`overdue permissions --database` prints the grants of each user";

/// All tables must exist, and all rights must be granted.
fn judge_tables(tables: &[Table], schemas: &[Schema]) -> Draft {
    let names = |of: fn(&&Table) -> bool| {
        tables.iter().filter(of).map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ")
    };
    let missing = names(|table| !table.exists);
    let closed: Vec<&str> =
        schemas.iter().filter(|it| !it.may_use).map(|it| it.name.as_str()).collect();
    if !missing.is_empty() && !closed.is_empty() {
        let closed = closed.join(", ");
        return Draft::error(
            format!("the user lacks USAGE on schema {closed}, and so does not find {missing}"),
            format!("GRANT USAGE ON SCHEMA {closed} TO the user of database.url; {GRANTS}"),
        );
    }
    if !missing.is_empty() {
        return Draft::error(
            format!("not found along database.search_path: {missing}"),
            "correct database.search_path, or: overdue database init",
        );
    }
    let all = names(|_| true);
    if Table::only_read(tables) {
        return Draft::ok(format!(
            "{all}; this login may not delete in them, a worker has its own"
        ));
    }
    let lacking = |join: &str, each: fn(&str, &str) -> String| {
        let lacking = tables.iter().filter(|table| !table.lacks.is_empty());
        let each = lacking.map(|table| each(&table.lacks.join(", "), &table.name));
        each.collect::<Vec<_>>().join(join)
    };
    let lacks = lacking("; ", |lacks, table| format!("{lacks} on {table}"));
    if lacks.is_empty() {
        return Draft::ok(all);
    }
    let grants = lacking(", ", |lacks, table| {
        format!("GRANT {lacks} ON {table} TO the user of database.url")
    });
    Draft::error(format!("the user lacks {lacks}"), format!("{grants}; {GRANTS}"))
}

/// Which users can make a worker run their code?
pub(crate) fn search_path(facts: &Facts) -> Draft {
    known(&facts.database.schemas, |schemas| judge_search_path(schemas))
}

/// No other user may create objects in a schema of the search path.
fn judge_search_path(schemas: &[Schema]) -> Draft {
    let open: Vec<&Schema> = schemas.iter().filter(|it| !it.creators.is_empty()).collect();
    let each = |text: fn(&Schema, &str) -> String| {
        let each = open.iter().map(|schema| text(schema, &schema.creators.join(", ")));
        each.collect::<Vec<_>>().join("; ")
    };
    if open.is_empty() {
        return Draft::ok("no other role may create in its schemas");
    }
    Draft::warning(
        format!(
            "{}: a function made there can replace one of PostgreSQL, and run as this user",
            each(|schema, who| format!("{who} may create in schema {}", schema.name))
        ),
        each(|schema, who| format!("REVOKE CREATE ON SCHEMA {} FROM {who}", schema.name)),
    )
}

/// Does the SQL of each effect fit the tables?
pub(crate) fn effects(facts: &Facts) -> Draft {
    judge_effects(&facts.database.effects)
}

/// Reports the first effect that does not fit; otherwise the first effect that lacks an index.
fn judge_effects(effects: &[(String, Probed<EffectPlan>)]) -> Draft {
    for (_, checked) in effects {
        if let Err(gap) = checked {
            return Draft::error(gap.reason.clone(), gap.fix.clone());
        }
    }
    let plans = effects.iter().filter_map(|(name, plan)| Some((name, plan.as_ref().ok()?)));
    for (name, plan) in plans {
        if let Some(scan) = plan.scans.iter().find(|scan| scan.is_large()) {
            return Draft::warning(
                format!("effect {name} reads {} from end to end each time", scan.table),
                format!("{}; `overdue effect check {name}` shows the plan", scan.fix()),
            );
        }
    }
    let names: Vec<&str> = effects.iter().map(|(name, _)| name.as_str()).collect();
    if names.is_empty() {
        return Draft::warning("not known: no topology, or no session", "see the errors above");
    }
    Draft::ok(format!("{} fits", names.join(", ")))
}

/// Can overdue orders be closed?
pub(crate) fn closing(facts: &Facts) -> Draft {
    judge_closing(&facts.database.attempts)
}

/// Reports the first effect that cannot close orders.
fn judge_closing(attempts: &[(String, Probed<Attempt>)]) -> Draft {
    let mut orders = 0;
    for (effect, attempt) in attempts {
        let found = attempt.as_ref().map(|attempt| {
            orders += attempt.orders;
            &attempt.obstacle
        });
        match found {
            Ok(None) => {}
            Err(gap) => {
                return Draft::warning(format!("not known: {}", gap.reason), gap.fix.clone());
            }
            Ok(Some(Obstacle { reason, next, kind: Kind::Lock })) => {
                return Draft::warning(format!("effect {effect}: {reason}"), next.clone());
            }
            Ok(Some(Obstacle { reason, kind: Kind::Right, .. })) => {
                let fix = "grant the missing rights if this is the user of a worker";
                return Draft::warning(format!("effect {effect}: {reason}"), fix);
            }
            Ok(Some(Obstacle { reason, next, .. })) => {
                let fix = format!("to see more: {next}");
                return Draft::error(format!("effect {effect}: {reason}"), fix);
            }
        }
    }
    if attempts.is_empty() {
        return Draft::warning("not known: no effect that fits", "see effects");
    }
    if orders == 0 {
        return Draft::ok("not tried: no order is overdue; the SQL runs without orders");
    }
    Draft::ok(format!(
        "{} can be closed (tried, and rolled back)",
        counted(orders, "overdue order")
    ))
}

/// Does an index serve the sweep?
pub(crate) fn sweep_index(facts: &Facts) -> Draft {
    let effects = &facts.database.effects;
    match effects.iter().find(|(_, fits)| fits.is_err()) {
        Some((name, _)) => {
            Draft::warning(format!("not known: effect {name} does not fit"), "see effects")
        }
        None => judge_sweeps(&facts.database.sweeps),
    }
}

/// PostgreSQL was told to avoid sequential scans, so a remaining scan has no index.
fn judge_sweeps(sweeps: &[(String, Probed<Sweep>)]) -> Draft {
    for (effect, sweep) in sweeps {
        match sweep {
            Err(gap) => {
                return Draft::warning(format!("not known: {}", gap.reason), gap.fix.clone());
            }
            Ok(Sweep::None) => {
                return Draft::warning(
                    format!(
                        "effect {effect} has no overdue_sql: an order whose message is lost stays open"
                    ),
                    format!("set effects.{effect}.overdue_sql (docs/effects.md)"),
                );
            }
            Ok(Sweep::Planned { scans }) if !scans.is_empty() => {
                let tables = scans.join(", ");
                return Draft::warning(
                    format!("the sweep of effect {effect} reads {tables} from end to end"),
                    format!(
                        "CREATE INDEX CONCURRENTLY ON {} (its deadline, its key) WHERE the state that is still open, in the words of \
                         overdue_sql, with the state as a literal there",
                        identifier(&scans[0])
                    ),
                );
            }
            Ok(Sweep::Planned { .. }) => {}
        }
    }
    if sweeps.is_empty() {
        return Draft::warning("not known: no topology, or no session", "see the errors above");
    }
    Draft::ok("the sweep goes by an index")
}

/// Are events published?
pub(crate) fn outbox(facts: &Facts) -> Draft {
    let missing =
        |tables: &Vec<Table>| tables.iter().any(|t| t.name.starts_with("outbox") && !t.exists);
    if facts.database.tables.as_ref().is_ok_and(missing) {
        return Draft::warning("not known: there is no outbox", "see tables");
    }
    known(&facts.database.outbox, judge_outbox)
}

fn longest_refused(name: &RefusedName) -> String {
    let RefusedName { event, lasts_ms, order_id, reason } = name;
    let lasts = about(Duration::from_millis(*lasts_ms));
    let first = match (order_id, reason) {
        (Some(order_id), Some(reason)) => format!(", the oldest of order {order_id}: {reason}"),
        _ => String::new(),
    };
    format!("; for the longest time {event} ({lasts}){first}")
}

/// A worker publishes all events within seconds.
fn judge_outbox(outbox: &Outbox) -> Draft {
    let Outbox { events, oldest_ms, refused, longest, unpublishable, unpublishable_reason } =
        outbox;
    let (refused, unpublishable) = (*refused, *unpublishable);
    if unpublishable > 0 {
        let (counted, reason) =
            (self::counted(unpublishable, "event"), unpublishable_reason.as_deref());
        return Draft::warning(
            format!("{counted} can never be published: {}", reason.unwrap_or_default()),
            "look at outbox_refused where waits_for is NULL, correct what writes them, and delete the rows",
        );
    }
    if refused > 0 {
        let counted = self::counted(refused, "event");
        return Draft::warning(
            format!(
                "{counted} refused or not confirmed by the broker{}",
                longest.as_ref().map(longest_refused).unwrap_or_default()
            ),
            "make room in the queues bound for it, look whether they have a leader and a majority of their members, or look in \
             a worker's log for `an event is refused`",
        );
    }
    let (counted, seconds) = (counted(*events, "event"), oldest_ms / 1_000);
    match *events {
        0 => Draft::ok("empty"),
        _ if condition::is_old(Duration::from_millis(*oldest_ms)) => Draft::warning(
            format!("{counted} waiting, the oldest for {seconds} s"),
            "start a worker, or look in its log for `relay failed`",
        ),
        _ => Draft::ok(format!("{counted} on the way, the oldest {seconds} s old")),
    }
}

/// Are scheduled notices published?
pub(crate) fn notices(facts: &Facts) -> Draft {
    known(&facts.database.scheduled, judge_scheduled)
}

/// If the tables do not exist, no service uses `schedule()`.
fn judge_scheduled(scheduled: &Scheduled) -> Draft {
    let Scheduled { lacks, notices, oldest_ms, refused, reason, timeout, zoneless } = scheduled;
    match lacks {
        Some(lacks) if lacks.starts_with("there is no table") => {
            return Draft::ok(format!("not in use: {lacks}"));
        }
        Some(lacks) => {
            return Draft::warning(
                format!("notices of schedule() are not published: {lacks}"),
                "GRANT it TO the user of database.url, or set schedule.publish = \"off\"",
            );
        }
        None => {}
    }
    if *refused > 0 {
        let reason = reason.as_deref().unwrap_or_default();
        return Draft::warning(
            format!("{} cannot be published: {reason}", counted(*refused, "scheduled notice")),
            "look at scheduled_notices_refused, correct what writes them, and delete the rows",
        );
    }
    let (waiting, seconds) = (counted(*notices, "notice"), oldest_ms / 1_000);
    match *notices {
        _ if condition::is_old(Duration::from_millis(*oldest_ms)) => Draft::warning(
            format!(
                "{waiting} waiting to be published, the oldest for {seconds} s and timeout `{}`",
                timeout.as_deref().unwrap_or("NULL")
            ),
            "start a worker whose topology file has that timeout, or look in its log for `scheduled notices`",
        ),
        _ if !zoneless.is_empty() => judge_zoneless(zoneless),
        0 => Draft::ok("nothing waits"),
        _ => Draft::ok(format!("{waiting} waiting, the oldest for {seconds} s")),
    }
}

/// Sessions with different time zones read the same deadline as different instants.
fn judge_zoneless(zoneless: &[ZonelessTrigger]) -> Draft {
    let named = zoneless.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ");
    let write: Vec<&str> = zoneless.iter().map(|it| it.write.as_str()).collect();
    Draft::warning(
        named,
        format!(
            "write the zone in which the column is stored as the last argument; for UTC: {}",
            write.join(" ")
        ),
    )
}
