//! Notices that order services wrote with their orders, `schedule()`: read, forgotten when confirmed, set aside when they
//! cannot be published.

use std::time::Duration;

use jiff::Timestamp;
use tokio_postgres::{Row, error::SqlState, types::ToSql};

use super::{
    LOCK_TIMEOUT_MS, Store, StoreError, clock::to_ms, outbox::trace, outgoing::OutgoingSession,
};
use crate::{doctor::facts::ZonelessTrigger, order::OrderId, wire::Trace};

/// What `schedule()` takes.
pub(super) const KNOWN: &str = include_str!("../../sql/schedule_known.sql");
const LACKS: &str = include_str!("../../sql/schedule_lacks.sql");
const CLAIM: &str = include_str!("../../sql/schedule_claim.sql");
const REFUSE: &str = include_str!("../../sql/schedule_refuse.sql");
const REGISTER: &str = include_str!("../../sql/schedule_register.sql");
const UNCOVERED: &str = include_str!("../../sql/schedule_uncovered.sql");
const CALLERS: &str = include_str!("../../sql/schedule_callers.sql");
const ZONES: &str = include_str!("../../sql/schedule_zones.sql");
const TIMEOUTS: &str = include_str!("../../sql/schedule_timeouts.sql");

/// What is done with notices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ScheduleUse {
    /// By a worker.
    Published,
    /// By whoever looks.
    Counted,
}

/// A notice to publish.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct ScheduledNotice {
    /// Its row.
    pub(crate) id: i64,
    pub(crate) order_id: OrderId,
    /// As it was written; the topology may have no such timeout.
    pub(crate) timeout: String,
    pub(crate) due_at: Timestamp,
    /// From when it was read to `due_at`, by the clock of the database; zero where that is over.
    pub(crate) rest: Duration,
    pub(crate) trace: Option<Trace>,
}

/// A notice that cannot be published.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SetAside {
    /// Its row.
    pub(crate) id: i64,
    pub(crate) reason: String,
}

/// A page of the table.
#[derive(Debug, Default)]
pub(crate) struct Claimed {
    pub(crate) notices: Vec<ScheduledNotice>,
    pub(crate) faulty: Vec<SetAside>,
    /// Its last row, whether that is to be published or not; none if there are no rows.
    pub(crate) last: Option<i64>,
    /// Whether there can be more rows than were asked for.
    pub(crate) is_full: bool,
}

/// An order whose notice was never confirmed.
#[derive(Clone, Debug)]
pub(crate) struct Uncovered {
    /// The row of the notice.
    pub(crate) id: i64,
    /// None where no message could carry it; the one that publishes sets it aside.
    pub(crate) order: Option<OrderId>,
}

/// A trigger that schedules for a timeout. Names are as SQL has them.
#[derive(Clone, Debug)]
pub(crate) struct ScheduleTrigger {
    pub(crate) name: String,
    pub(crate) table: String,
    pub(crate) timeout: String,
    /// `overdue database init --trigger` has made it, and this user may drop it.
    pub(crate) is_ours: bool,
}

impl Store {
    /// What is missing to publish notices, or to count them: a table, or a right on one.
    pub(crate) async fn schedule_lacks(
        &self,
        what: ScheduleUse,
    ) -> Result<Option<String>, StoreError> {
        let publish = what == ScheduleUse::Published;
        let rows = self.rows("schedule_lacks", LACKS, &[&publish, &&*self.own_schema]).await?;
        Ok(rows.first().map(|row| row.get("lacks")))
    }

    /// `schedule()` takes these timeouts of a topology from now on, with their delays, but those that were [removed](Self::set_timeouts): a worker
    /// may have an older file. Those that it refuses for that reason.
    pub async fn register_timeouts(
        &self,
        topology: &str,
        timeouts: &[(&str, Duration)],
    ) -> Result<Vec<String>, StoreError> {
        let (names, delays) = columns(timeouts);
        let parameters: [&(dyn ToSql + Sync); 3] = [&names, &topology, &delays];
        let rows = self.rows("schedule_register", REGISTER, &parameters).await?;
        Ok(rows.iter().map(|row| row.get("name")).collect())
    }

    /// Timeouts of a topology that `schedule()` takes and that are none of these. None where the tables are missing.
    pub(crate) async fn timeouts_to_remove(
        &self,
        topology: &str,
        timeouts: &[&str],
    ) -> Result<Vec<String>, StoreError> {
        let rows = if_created(self.rows("schedule_known", KNOWN, &[]).await)?;
        let known = rows.iter().filter(|row| row.get::<_, &str>("topology") == topology);
        let known = known.map(|row| row.get::<_, String>("name"));
        Ok(known.filter(|name| !timeouts.contains(&name.as_str())).collect())
    }

    /// `schedule()` takes these timeouts of a topology from now on, and the `removed` ones of it no more.
    pub async fn set_timeouts(
        &self,
        topology: &str,
        timeouts: &[(&str, Duration)],
        removed: &[String],
    ) -> Result<(), StoreError> {
        let (names, delays) = columns(timeouts);
        let parameters: [&(dyn ToSql + Sync); 4] = [&names, &topology, &delays, &removed];
        self.rows("schedule_timeouts", TIMEOUTS, &parameters).await.map(drop)
    }

    /// Triggers that fail when a topology has only these timeouts, or fail already. None where the tables are missing.
    pub(crate) async fn schedule_triggers(
        &self,
        topology: &str,
        timeouts: &[&str],
    ) -> Result<Vec<ScheduleTrigger>, StoreError> {
        let rows =
            if_created(self.rows("schedule_callers", CALLERS, &[&timeouts, &topology]).await)?;
        let trigger = |row: &Row| ScheduleTrigger {
            name: row.get("trigger_name"),
            table: row.get("table_name"),
            timeout: row.get("timeout"),
            is_ours: row.get("is_ours"),
        };
        Ok(rows.iter().map(trigger).collect())
    }

    /// Triggers whose deadlines depend on the time zone of the session that writes the row.
    pub(crate) async fn zoneless_triggers(&self) -> Result<Vec<ZonelessTrigger>, StoreError> {
        let rows = self.rows("schedule_zones", ZONES, &[&&*self.own_schema]).await?;
        let trigger = |row: &Row| ZonelessTrigger {
            name: row.get("trigger_name"),
            table: row.get("table_name"),
            column: row.get("column_name"),
            column_type: row.get("column_type"),
            write: row.get("write"),
            session_zone: row.get("session_zone"),
            east_s: row.get("east_s"),
        };
        Ok(rows.iter().map(trigger).collect())
    }

    /// Drops triggers, in one transaction, if a lock on their table is available within 5 s: all that comes after waits behind it.
    pub(crate) async fn drop_triggers(
        &self,
        triggers: &[ScheduleTrigger],
    ) -> Result<(), StoreError> {
        // Behind a pooler the session has no such time-out.
        let mut script = format!("SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS};\n");
        script.extend(triggers.iter().map(ScheduleTrigger::drop_statement));
        self.run_script("schedule_triggers_drop", &script).await
    }

    /// Notices that have been over for `grace`, by their rows.
    pub(crate) async fn uncovered(
        &self,
        timeouts: &[&str],
        grace: Duration,
        after: i64,
        limit: i64,
    ) -> Result<Vec<Uncovered>, StoreError> {
        let parameters: [&(dyn ToSql + Sync); 4] = [&timeouts, &to_ms(grace), &after, &limit];
        let rows = self.rows("schedule_uncovered", UNCOVERED, &parameters).await?;
        let read = rows.iter().map(|row| Uncovered {
            id: row.get("id"),
            // In a database without an encoding it can be bytes that are not UTF-8.
            order: row.try_get("order_id").ok().and_then(|id| OrderId::parse(id).ok()),
        });
        Ok(read.collect())
    }
}

impl ScheduleTrigger {
    /// What takes it away.
    pub(crate) fn drop_statement(&self) -> String {
        format!("DROP TRIGGER {} ON {};", self.name, self.table)
    }
}

/// No rows where the tables are not there yet.
fn if_created(rows: Result<Vec<Row>, StoreError>) -> Result<Vec<Row>, StoreError> {
    match rows {
        Err(error) if error.code() == Some(&SqlState::UNDEFINED_TABLE) => Ok(Vec::new()),
        rows => rows,
    }
}

/// Names, and delays in milliseconds.
fn columns<'a>(timeouts: &[(&'a str, Duration)]) -> (Vec<&'a str>, Vec<i64>) {
    timeouts.iter().map(|(name, after)| (*name, to_ms(*after))).unzip()
}

/// The next `limit` rows of the table after a row, and of them the notices of these timeouts but those in the rows `without`.
pub(crate) async fn claim(
    session: &OutgoingSession,
    after: i64,
    limit: i64,
    timeouts: &[String],
    without: &[i64],
) -> Result<Claimed, StoreError> {
    let rows =
        session.rows("schedule_claim", CLAIM, &[&after, &limit, &timeouts, &without]).await?;
    let mut claimed = Claimed {
        last: rows.first().and_then(|row| row.get("last")),
        is_full: rows.first().is_some_and(|row| row.get::<_, i64>("found") >= limit),
        ..Claimed::default()
    };
    for row in &rows {
        let Some(id) = row.get("id") else { continue };
        match notice(id, row) {
            Ok(notice) => claimed.notices.push(notice),
            Err(reason) => claimed.faulty.push(SetAside { id, reason }),
        }
    }
    Ok(claimed)
}

/// Moves what can never be published out of the way of the others.
pub(crate) async fn set_aside(
    session: &OutgoingSession,
    aside: &[SetAside],
) -> Result<(), StoreError> {
    let ids: Vec<i64> = aside.iter().map(|notice| notice.id).collect();
    let reasons: Vec<&str> = aside.iter().map(|notice| notice.reason.as_str()).collect();
    session.rows("schedule_refuse", REFUSE, &[&ids, &reasons]).await.map(drop)
}

fn notice(id: i64, row: &Row) -> Result<ScheduledNotice, String> {
    if let Some(fault) = row.get("fault") {
        return Err(fault);
    }
    let unreadable = |error: tokio_postgres::Error| crate::text::error_chain(&error);
    let rest_ms: i64 = row.try_get("rest_ms").map_err(unreadable)?;
    Ok(ScheduledNotice {
        id,
        order_id: OrderId::parse(row.try_get("order_id").map_err(unreadable)?)
            .map_err(|error| error.to_string())?,
        timeout: row.try_get("timeout").map_err(unreadable)?,
        due_at: row.try_get("due_at").map_err(unreadable)?,
        rest: Duration::from_millis(u64::try_from(rest_ms).unwrap_or(0)),
        trace: trace(row),
    })
}
