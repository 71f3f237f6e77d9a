//! What `overdue doctor` wants to know about the database. Asks for everything it can; changes nothing.

use std::future::Future;

use deadpool_postgres::Transaction;
use jiff::Timestamp;
use serde_json::Value;
use tokio_postgres::{Row, SimpleQueryMessage};

use super::{
    FailureKind, Store, StoreError, orders::Effect, schedule::Notices, session::Connection,
};
use crate::doctor::facts::{
    Asked, DatabaseFacts, Encryption, Gap, Outbox, RefusedName, Scheduled, Schema, Server, Session,
    Skew, Sweep, Table, User, is_loopback,
};

impl Store {
    /// Everything that can be known; `now` is this machine's clock. Effects whose SQL could not be read are
    /// handed over as gaps.
    pub async fn facts(
        &self,
        effects: &[(String, Asked<Effect>)],
        now: fn() -> Timestamp,
    ) -> DatabaseFacts {
        let server = self.server().await;
        let session = match server {
            Ok(server) => Session::Open(server),
            Err(error) => return self.unknown(&error),
        };
        let mut checked = Vec::new();
        let (mut sweeps, mut obstacles) = (Vec::new(), Vec::new());
        for (name, effect) in effects {
            let fits = each(effect, |effect| self.effect_plan(effect)).await;
            if fits.is_ok() {
                let tried = each(effect, |effect| self.obstacle(effect)).await;
                obstacles.push((name.clone(), tried));
            }
            checked.push((name.clone(), fits));
            sweeps.push((name.clone(), each(effect, |effect| self.sweep_plan_of(effect)).await));
        }
        let tables = asked(self.tables().await);
        let reads = tables.as_ref().is_ok_and(|tables| Table::only_read(tables));
        let notices = if reads { Notices::Counted } else { Notices::Published };
        DatabaseFacts {
            address: self.address().to_owned(),
            loopback: self.is_loopback(),
            session,
            tables,
            schemas: asked(self.schemas().await),
            outbox: asked(self.outbox().await),
            scheduled: asked(self.scheduled(notices).await),
            effects: checked,
            sweeps,
            obstacles,
            clock: asked(self.clock(now).await),
        }
    }

    fn unknown(&self, error: &StoreError) -> DatabaseFacts {
        let text = reason(error);
        let refused = error.kind() == FailureKind::Configuration;
        let session =
            if refused { Session::LoginRefused(text) } else { Session::Unreachable(text) };
        DatabaseFacts::unknown(self.address().to_owned(), self.is_loopback(), session)
    }

    fn is_loopback(&self) -> bool {
        let host = self.address().split(" database").next().unwrap_or_default();
        host.split(',')
            .all(|node| is_loopback(node.rsplit_once(':').map_or(node, |(host, _)| host)))
    }

    async fn server(&self) -> Result<Server, StoreError> {
        const SQL: &str = include_str!("../../sql/doctor_server.sql");
        let row = self.one("doctor_server", SQL).await?;
        Ok(Server {
            version_num: row.get(0),
            tls: if row.get(1) { self.encryption } else { Encryption::None },
            standby: row.get(2),
            read_only: row.get(3),
            max_connections: row.get(4),
            reserved: row.get(5),
            used: row.get(6),
            commit_timestamps: row.get(7),
            user: if row.get(9) { User::Super(row.get(8)) } else { User::Other(row.get(8)) },
        })
    }

    async fn tables(&self) -> Result<Vec<Table>, StoreError> {
        const SQL: &str = include_str!("../../sql/doctor_tables.sql");
        let client = self.client().await?;
        let rows = self.named("doctor_tables", client.query(SQL, &[]).await)?;
        let table = |row: &Row| Table { name: row.get(0), exists: row.get(1), lacks: row.get(2) };
        Ok(rows.iter().map(table).collect())
    }

    async fn schemas(&self) -> Result<Vec<Schema>, StoreError> {
        const SQL: &str = include_str!("../../sql/doctor_schemas.sql");
        let client = self.client().await?;
        let rows = self.named("doctor_schemas", client.query(SQL, &[]).await)?;
        let schema =
            |row: &Row| Schema { name: row.get(0), may_use: row.get(1), creators: row.get(2) };
        Ok(rows.iter().map(schema).collect())
    }

    async fn outbox(&self) -> Result<Outbox, StoreError> {
        const SQL: &str = include_str!("../../sql/doctor_outbox.sql");
        let row = self.one("doctor_outbox", SQL).await?;
        Ok(Outbox {
            events: row.get(0),
            oldest_ms: row.get(1),
            refused: row.get(2),
            longest: row.get::<_, Option<String>>(3).map(|event| RefusedName {
                event,
                lasts_ms: row.get(4),
                order_id: row.get(5),
                reason: row.get(6),
            }),
            unpublishable: row.get(7),
            unpublishable_reason: row.get(8),
        })
    }

    async fn scheduled(&self, notices: Notices) -> Result<Scheduled, StoreError> {
        const SQL: &str = include_str!("../../sql/doctor_schedule.sql");
        let lacks = self.schedule_lacks(notices).await?;
        if lacks.is_some() {
            return Ok(Scheduled { lacks, ..Scheduled::default() });
        }
        let row = self.one("doctor_schedule", SQL).await?;
        Ok(Scheduled {
            lacks,
            notices: row.get(0),
            oldest_ms: row.get(1),
            refused: row.get(2),
            reason: row.get(3),
            timeout: row.get(4),
        })
    }

    async fn clock(&self, now: fn() -> Timestamp) -> Result<Skew, StoreError> {
        let client = self.client().await?;
        let statement = client.prepare_cached("SELECT clock_timestamp()").await;
        let statement = self.named("clock", statement)?;
        let sent = now();
        let row = self.named("clock", client.query_one(&statement, &[]).await)?;
        let received = now();
        let database: Timestamp = row.get(0);
        let round_trip_ms = received.as_millisecond().saturating_sub(sent.as_millisecond());
        let middle_ms = sent.as_millisecond().saturating_add(round_trip_ms / 2);
        Ok(Skew {
            ahead_ms: database.as_millisecond().saturating_sub(middle_ms),
            margin_ms: round_trip_ms / 2 + 1,
        })
    }

    async fn sweep_plan_of(&self, effect: &Effect) -> Result<Sweep, StoreError> {
        let sql = effect.overdue_sql.as_deref().unwrap_or_default();
        let plan = self.sweep_plan(effect).await;
        plan.map_err(|error| error.in_effect(&effect.name, &effect.overdue_file, sql))
    }

    /// The plan for any limit and grace, with scans forbidden where there is another way: on a small table
    /// PostgreSQL scans although there is an index.
    async fn sweep_plan(&self, effect: &Effect) -> Result<Sweep, StoreError> {
        let Some(sql) = &effect.overdue_sql else { return Ok(Sweep::None) };
        // Taken out of the pool: what is prepared here outlives even a roll-back.
        let mut client = Connection::take(self.client().await?);
        let name = "doctor_sweep";
        let transaction = self.named(name, client.transaction().await)?;
        let prepare = format!(
            "SET LOCAL enable_seqscan = off; SET LOCAL plan_cache_mode = force_generic_plan;\n\
             PREPARE doctor_sweep AS {}",
            sql.trim().trim_end_matches(';')
        );
        self.named(name, transaction.batch_execute(&prepare).await)?;
        let explain = if self.named(name, parameters(&transaction).await)? > 2 {
            "EXPLAIN (FORMAT json) EXECUTE doctor_sweep (500, 60000, '-infinity', '')"
        } else {
            "EXPLAIN (FORMAT json) EXECUTE doctor_sweep (500, 60000)"
        };
        let answer = self.named(name, transaction.simple_query(explain).await)?;
        self.named(name, transaction.rollback().await)?;
        let rows = answer.iter().filter_map(|message| match message {
            SimpleQueryMessage::Row(row) => row.get(0),
            _ => None,
        });
        let plan: String = rows.collect();
        let plan: Value = serde_json::from_str(&plan).map_err(|error| StoreError::Effect {
            effect: effect.name.clone(),
            file: effect.overdue_file.clone(),
            reason: format!("its plan cannot be read: {error}"),
        })?;
        let mut scans = Vec::new();
        collect_scans(&plan, &mut scans);
        Ok(Sweep::Planned { scans })
    }

    async fn one(&self, name: &'static str, sql: &str) -> Result<Row, StoreError> {
        let client = self.client().await?;
        self.named(name, client.query_one(sql, &[]).await)
    }
}

/// How many parameters the prepared statement takes: its types follow from their use.
async fn parameters(transaction: &Transaction<'_>) -> Result<i64, tokio_postgres::Error> {
    const SQL: &str = "SELECT pg_catalog.cardinality(parameter_types)::bigint FROM pg_prepared_statements WHERE name = 'doctor_sweep'";
    transaction.query_one(SQL, &[]).await?.try_get(0)
}

/// Every table that a plan scans, at whatever depth.
fn collect_scans(plan: &Value, scans: &mut Vec<String>) {
    match plan {
        Value::Array(nodes) => nodes.iter().for_each(|node| collect_scans(node, scans)),
        Value::Object(node) => {
            if node.get("Node Type").and_then(Value::as_str) == Some("Seq Scan") {
                let table = node.get("Relation Name").and_then(Value::as_str);
                scans.extend(table.map(str::to_owned));
            }
            node.values().for_each(|child| collect_scans(child, scans));
        }
        _ => {}
    }
}

async fn each<'a, T, F: Future<Output = Result<T, StoreError>>>(
    effect: &'a Asked<Effect>,
    ask: impl FnOnce(&'a Effect) -> F,
) -> Asked<T> {
    match effect {
        Ok(effect) => asked(ask(effect).await),
        Err(gap) => Err(gap.clone()),
    }
}

fn asked<T>(answer: Result<T, StoreError>) -> Asked<T> {
    answer.map_err(|error| {
        let fix = error.advice().unwrap_or("look in the log of the database");
        if error.is_permission() {
            Gap::denied(reason(&error), fix)
        } else {
            Gap::new(reason(&error), fix)
        }
    })
}

/// PostgreSQL's own words are only in the causes.
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
