//! Reads a table and a sample of its rows for `overdue init`: never all rows of a large table.

use tokio_postgres::{Row, types::Json};

use super::{Store, StoreError};
use crate::{
    effect::{
        description::TableName,
        proposal::{
            Answers,
            found::{Column, Found, MOST_ROWS, Reading, Sample, Table},
            words::RESERVED,
        },
    },
    text::sql::identifier,
};

/// Zones that equal UTC.
const UTC: [&str; 6] = ["UTC", "Etc/UTC", "GMT", "Etc/GMT", "Zulu", "Universal"];
/// Limit of the tables whose states are read because they refer to the table.
const MOST_CHILDREN: usize = 20;
/// A zone to show the difference, if database and machine are in UTC.
const ANOTHER: &str = "Asia/Tokyo";

/// A table, with names and types of its columns.
pub(crate) type NamedColumns = (String, Vec<(String, String)>);

/// The reason why there is no proposal.
#[derive(Debug)]
pub(crate) enum Unknown {
    /// The table does not exist.
    Table,
    /// The SQL of an option is invalid for this table: name of the option, and PostgreSQL's message.
    Option(&'static str, String),
    /// The query failed.
    Store(StoreError),
}

impl From<StoreError> for Unknown {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

impl Store {
    /// The database's time to the minute: `2026-12-01T09:00Z`.
    pub(crate) async fn minute(&self) -> Result<String, StoreError> {
        const SQL: &str = "SELECT to_char(now() AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI\"Z\"')";
        Ok(self.one("init_minute", SQL, &[]).await?.get(0))
    }

    /// Tables that this user may read, except those in `own_schema`.
    pub(crate) async fn readable_tables(
        &self,
        own_schema: &str,
    ) -> Result<Vec<NamedColumns>, StoreError> {
        const SQL: &str = include_str!("../../sql/init_candidates.sql");
        let rows = self.rows("init_candidates", SQL, &[&own_schema]).await?;
        let named = |row: Row| {
            let (columns, kinds): (Vec<String>, Vec<String>) = (row.get(1), row.get(2));
            (row.get(0), columns.into_iter().zip(kinds).collect())
        };
        Ok(rows.into_iter().map(named).collect())
    }

    /// Reads a table with a sample of its rows.
    pub(crate) async fn found(
        &self,
        table: &TableName,
        own_schema: &str,
        answers: &Answers,
    ) -> Result<Found, Unknown> {
        const SQL: &str = include_str!("../../sql/init_tables.sql");
        let reserved: Vec<&str> = RESERVED.split(' ').collect();
        let rows = self.rows("init_tables", SQL, &[&table.sql, &own_schema, &reserved]).await?;
        let Some(row) = rows.first() else { return Err(Unknown::Table) };
        let Json(mut found): Json<Found> = row.get(0);
        if !found.is_table() {
            return Ok(found);
        }
        self.read_children(&mut found).await?;
        found.sample = self.sample(&found, &table.sql, answers.open.as_deref()).await?;
        if let Some(deadline) = &answers.deadline {
            let sql = format!("SELECT ({deadline}) FROM {} AS row", table.sql);
            let client = self.client().await?;
            let statement = self.named("init_deadline", client.prepare(&sql).await);
            let statement =
                statement.map_err(|error| answered("--deadline", deadline, &sql, error))?;
            found.deadline_kind =
                statement.columns().first().map(|it| it.type_().name().to_owned());
        }
        found.readings = self.readings(&found).await?;
        Ok(found)
    }

    /// Adds the states of rows that refer to the table to the labels of their columns; skips tables that the user may not read.
    async fn read_children(&self, found: &mut Found) -> Result<(), StoreError> {
        for (table, column) in found.states_of_children().into_iter().take(MOST_CHILDREN) {
            let sql = format!(
                "SELECT DISTINCT left(state::text, 64) FROM (SELECT {} FROM {table} LIMIT {MOST_ROWS}) AS child (state) \
                 WHERE state IS NOT NULL LIMIT 30",
                identifier(&column.name)
            );
            match self.rows("init_states", &sql, &[]).await {
                Ok(rows) => column.labels.extend(rows.iter().map(|row| row.get::<_, String>(0))),
                Err(error) if error.is_permission() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Rows of a small table; for a large one the last rows by key, and as many others.
    async fn sample(
        &self,
        found: &Found,
        table: &str,
        open: Option<&str>,
    ) -> Result<Sample, Unknown> {
        let looked_at = found.looked_at();
        let values: Vec<String> = looked_at.iter().map(|it| value(it)).collect();
        let open_sql = open.map_or_else(|| "true".to_owned(), |it| format!("({it}) IS TRUE"));
        let select = format!(
            "SELECT ARRAY[{}]::text[] AS looked_at, {open_sql} AS is_open FROM {table} AS row",
            values.join(", ")
        );
        let sql = match found.table() {
            Some(relation) if relation.rows > f64::from(MOST_ROWS) => of_large(relation, &select),
            _ => format!("{select} LIMIT {MOST_ROWS}"),
        };
        let rows = self.rows("init_sample", &sql, &[]).await;
        let rows = rows.map_err(|error| match open {
            Some(open) => answered("--open", open, &sql, error),
            None => error.into(),
        })?;
        let now: f64 =
            self.one("init_now", "SELECT extract(epoch FROM now())::float8", &[]).await?.get(0);
        Ok(Sample {
            now,
            columns: looked_at.iter().map(|it| it.name.clone()).collect(),
            open: open.map(|_| rows.iter().map(|row| row.get(1)).collect()),
            rows: rows.iter().map(|row| row.get(0)).collect(),
        })
    }

    /// The newest value of each column without time zone, read as UTC and in another zone.
    async fn readings(&self, found: &Found) -> Result<Vec<Reading>, StoreError> {
        const SQL: &str = "SELECT to_char(it, 'YYYY-MM-DD HH24:MI'), to_char(it, 'YYYY-MM-DD\"T\"HH24:MI\"Z\"'), \
                           to_char(it AT TIME ZONE $2 AT TIME ZONE 'UTC', 'YYYY-MM-DD\"T\"HH24:MI\"Z\"') \
                           FROM (SELECT to_timestamp($1::float8) AT TIME ZONE 'UTC') AS read (it)";
        let zone: String =
            self.one("init_zone", "SELECT current_setting('TimeZone')", &[]).await?.get(0);
        let zone = if UTC.contains(&zone.as_str()) { here() } else { zone };
        let mut readings = Vec::new();
        for column in found.looked_at() {
            if column.kind != "timestamp without time zone" && column.kind != "date" {
                continue;
            }
            let values = found.sample.numbers(&column.name).flatten();
            let Some(newest) = values.filter(|it| it.is_finite()).max_by(f64::total_cmp) else {
                continue;
            };
            let row = self.one("init_reading", SQL, &[&newest, &zone]).await?;
            readings.push(Reading {
                column: column.name.clone(),
                value: row.get(0),
                in_utc: row.get(1),
                zone: zone.clone(),
                in_zone: row.get(2),
            });
        }
        Ok(readings)
    }
}

/// Half of the rows come from the end of the key's index, the others from pages all over the table.
fn of_large(table: &Table, select: &str) -> String {
    let half = MOST_ROWS / 2;
    let percent = (100.0 * f64::from(MOST_ROWS) / 2.0 / table.rows).clamp(0.000_01, 100.0);
    let others = format!("({select} TABLESAMPLE SYSTEM ({percent:.6}) LIMIT {half})");
    let Some(key) = table.unique.first() else { return others };
    let key: Vec<String> = key.iter().map(|it| format!("row.{} DESC", identifier(it))).collect();
    format!("({select} ORDER BY {} LIMIT {half}) UNION ALL {others}", key.join(", "))
}

/// SQL of a column's value in the sample.
fn value(column: &Column) -> String {
    let name = format!("row.{}", identifier(&column.name));
    match column.kind.as_str() {
        "timestamp with time zone" => format!("extract(epoch FROM {name})::text"),
        "timestamp without time zone" => {
            format!("extract(epoch FROM {name} AT TIME ZONE 'UTC')::text")
        }
        "date" => format!("extract(epoch FROM ({name} + 1)::timestamp AT TIME ZONE 'UTC')::text"),
        _ => format!("left({name}::text, 64)"),
    }
}

/// The zone of this machine, or another one if it equals UTC.
fn here() -> String {
    let zone = jiff::tz::TimeZone::system();
    zone.iana_name().filter(|it| !UTC.contains(it)).unwrap_or(ANOTHER).to_owned()
}

/// The error for an option that PostgreSQL refuses, with its text and the statement around it.
fn answered(option: &'static str, text: &str, sql: &str, error: StoreError) -> Unknown {
    if matches!(error, StoreError::Statement { .. }) && error.is_answer() {
        return Unknown::Option(option, error.refusal(sql, &[text]));
    }
    Unknown::Store(error)
}
