//! Facts about the database for `overdue doctor`. It runs every query that it can, and changes nothing.

use std::{future::Future, ops::Range, time::Duration};

use jiff::Timestamp;
use tokio_postgres::{Row, types::ToSql};

use super::{
    FailureKind, SESSION, Store, StoreError,
    clock::{DatabaseTime, to_ms},
    effects::Effect,
    outbox::PassedOver,
    pool::{PoolKind, StatementCall, count},
    schedule::ScheduleUse,
};
use crate::doctor::facts::{
    DatabaseFacts, Encryption, HeldBy, Holder, Horizon, ProbeError, Probed, Schema, Server,
    Session, Skew, Table, User, is_loopback,
};

impl Store {
    /// Reads all facts; `now` is this machine's clock. An effect whose SQL could not be read is passed in as a gap.
    pub async fn facts(
        &self,
        effects: &[(String, Probed<Effect>)],
        now: fn() -> Timestamp,
    ) -> DatabaseFacts {
        let server = self.server().await;
        let session = match server {
            Ok(server) => Session::Open(server),
            Err(error) => return self.unknown(&error),
        };
        let mut checked = Vec::new();
        let (mut sweeps, mut attempts) = (Vec::new(), Vec::new());
        for (name, effect) in effects {
            let fits = each(effect, |effect| self.effect_plan(effect)).await;
            if fits.is_ok() {
                let tried = each(effect, |effect| self.attempt(effect)).await;
                attempts.push((name.clone(), tried));
            }
            checked.push((name.clone(), fits));
            sweeps.push((name.clone(), each(effect, |effect| self.sweep_plan(effect)).await));
        }
        let tables = asked(self.tables().await);
        let reads = tables.as_ref().is_ok_and(|tables| Table::only_read(tables));
        let notices = if reads { ScheduleUse::Counted } else { ScheduleUse::Published };
        DatabaseFacts {
            address: self.address().to_owned(),
            loopback: self.is_loopback(),
            session,
            tables,
            schemas: asked(self.schemas().await),
            outbox: asked(self.outbox(i64::MAX, &PassedOver::default()).await),
            scheduled: asked(self.scheduled_with_triggers(notices).await),
            effects: checked,
            sweeps,
            attempts,
            horizon: asked(self.horizon().await),
            clock: asked(self.skew(now).await),
        }
    }

    fn unknown(&self, error: &StoreError) -> DatabaseFacts {
        let text = reason(error);
        let refused = error.kind() == FailureKind::Configuration;
        let session = if matches!(error, StoreError::NoPreparedStatements { .. }) {
            Session::Pooled(text)
        } else if refused {
            Session::LoginRefused(text)
        } else {
            Session::Unreachable(text)
        };
        DatabaseFacts::unknown(self.address().to_owned(), self.is_loopback(), session)
    }

    fn is_loopback(&self) -> bool {
        let host = self.address().split(" database").next().unwrap_or_default();
        host.split(',')
            .all(|node| is_loopback(node.rsplit_once(':').map_or(node, |(host, _)| host)))
    }

    async fn server(&self) -> Result<Server, StoreError> {
        const SQL: &str = include_str!("../../sql/doctor_server.sql");
        const OF_SESSION: &str = include_str!("../../sql/doctor_session.sql");
        self.check_pooler().await?;
        let row = self.one("doctor_server", SQL, &[]).await?;
        let wanted = self.start_up();
        let (names, values): (Vec<&str>, Vec<&str>) = wanted.iter().copied().unzip();
        let parameters: [&(dyn ToSql + Sync); 2] = [&names, &values];
        let session = StatementCall::new("doctor_session", OF_SESSION, &parameters);
        let session = self.execute(PoolKind::Closing, session).await?;
        let session = session.first();
        let kept = session.filter(|row| !row.get::<_, bool>("passed_on"));
        let lacking = kept.map(|row| {
            let lacks: Vec<&str> = row.get("lacks");
            let lacking = wanted.iter().filter(|(name, _)| lacks.contains(name));
            lacking.map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
        });
        Ok(Server {
            behind_pooler: lacking,
            version_num: row.get(0),
            tls: if row.get(1) { self.encryption } else { Encryption::None },
            standby: row.get(2),
            read_only: row.get(3),
            max_connections: row.get(4),
            reserved: row.get(5),
            used: row.get(6),
            commit_timestamps: row.get(7),
            lock_timeout_ms: session.map_or(0, |row| row.get("lock_timeout_ms")),
            user: if row.get(9) { User::Super(row.get(8)) } else { User::Other(row.get(8)) },
        })
    }

    /// The options of every connection.
    fn start_up(&self) -> Vec<(&str, &str)> {
        let options = self.config.get_options().unwrap_or_default();
        let each = options.split_whitespace().filter_map(|option| option.split_once('='));
        let each = each.map(|(name, value)| (name.strip_prefix("-c").unwrap_or(name), value));
        // The sessions that close orders have another lock time-out.
        each.filter(|(name, _)| !matches!(*name, "lock_timeout" | SESSION)).collect()
    }

    async fn tables(&self) -> Result<Vec<Table>, StoreError> {
        const SQL: &str = include_str!("../../sql/doctor_tables.sql");
        let rows = self.rows("doctor_tables", SQL, &[&&*self.own_schema]).await?;
        let table = |row: &Row| Table { name: row.get(0), exists: row.get(1), lacks: row.get(2) };
        Ok(rows.iter().map(table).collect())
    }

    async fn schemas(&self) -> Result<Vec<Schema>, StoreError> {
        const SQL: &str = include_str!("../../sql/doctor_schemas.sql");
        let rows = self.rows("doctor_schemas", SQL, &[]).await?;
        let schema =
            |row: &Row| Schema { name: row.get(0), may_use: row.get(1), creators: row.get(2) };
        Ok(rows.iter().map(schema).collect())
    }

    async fn horizon(&self) -> Result<Horizon, StoreError> {
        const SQL: &str = include_str!("../../sql/doctor_horizon.sql");
        let rows = self.rows("doctor_horizon", SQL, &[]).await?;
        let hidden = rows.first().map_or(0, |row| count(row, "hidden"));
        Ok(Horizon { hidden, holders: rows.iter().filter_map(holder).collect() })
    }

    async fn skew(&self, now: fn() -> Timestamp) -> Result<Skew, StoreError> {
        let (database, Range { start, end }) = self.read_clock().await?;
        let half = (end - start) / 2;
        let middle = DatabaseTime::from(now()).before(end.elapsed() + half);
        Ok(Skew { ahead_ms: database.ms_after(middle), margin_ms: to_ms(half) + 1 })
    }
}

/// `None` for a row that only counts hidden sessions.
fn holder(row: &Row) -> Option<Holder> {
    let name: String = row.get("name");
    let pid = || row.get::<_, Option<i32>>("pid").unwrap_or_default();
    let by = match row.get::<_, Option<&str>>("kind")? {
        "session" => HeldBy::Session {
            pid: pid(),
            user: row.get("db_user"),
            application: name,
            state: row.get("state"),
        },
        "prepared" => HeldBy::Prepared { gid: name, owner: row.get("db_user") },
        "slot" => HeldBy::Slot {
            name,
            active: row.get::<_, &str>("state") == "active",
            catalogs: row.get("catalogs"),
        },
        _ => HeldBy::Standby { name, pid: pid() },
    };
    let age = row.get::<_, Option<i64>>("age_ms").and_then(|ms| u64::try_from(ms).ok());
    let age = age.map(Duration::from_millis);
    Some(Holder { by, age, transactions: count(row, "transactions") })
}

async fn each<'a, T, F: Future<Output = Result<T, StoreError>>>(
    effect: &'a Probed<Effect>,
    ask: impl FnOnce(&'a Effect) -> F,
) -> Probed<T> {
    match effect {
        Ok(effect) => asked(ask(effect).await),
        Err(gap) => Err(gap.clone()),
    }
}

fn asked<T>(answer: Result<T, StoreError>) -> Probed<T> {
    answer.map_err(|error| {
        let fix = error.advice().unwrap_or("look in the log of the database");
        if error.is_permission() {
            ProbeError::denied(reason(&error), fix)
        } else {
            ProbeError::new(reason(&error), fix)
        }
    })
}

/// The error with its causes, which contain PostgreSQL's own text.
fn reason(error: &StoreError) -> String {
    match error {
        StoreError::Connect { source, .. }
        | StoreError::Statement { source, .. }
        | StoreError::EffectStatement { source, .. } => {
            format!("{error}: {}", crate::text::error_chain(source))
        }
        _ => error.to_string(),
    }
}
