//! The tables of `overdue`: creates them in the first schema of the search path, and the reference order tables in the last. It
//! drops its own tables only: the reference order tables belong to the user.

use std::{borrow::Cow, collections::BTreeSet, fmt};

use deadpool_postgres::Transaction;

use super::{LOCK_TIMEOUT_MS, Store, StoreError, schedule::KNOWN};
use crate::text::counted;

const OURS: &str = include_str!("../../sql/worker_tables.sql");
const SCHEDULE: &str = include_str!("../../sql/schedule.sql");
const PAUSES: &str = include_str!("../../sql/pauses.sql");
const VERSIONED: &str = include_str!("../../sql/tables_version.sql");
const FOREIGN: &str = include_str!("../../sql/foreign_tables.sql");
const REFERENCE: &str = include_str!("../../sql/schema.sql");
/// Version of [`OURS`], [`SCHEDULE`] and [`PAUSES`]: increase it with each change of a column or a function (docs/stability.md).
const VERSION: u32 = 3;
/// Begins the statement for a table in these scripts; each column of the table has a line of its own.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS ";
/// Begins a statement of a later version that adds columns, and, as `ADD`, the line of each column.
const ALTER: &str = "ALTER TABLE ";
const ADD: &str = "ADD COLUMN IF NOT EXISTS ";

/// Limit for counting the rows of a table: a history may have millions.
const MOST_ROWS: i64 = 1_000_000;

/// A table of `overdue` in the database.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnTable {
    /// The name without the schema.
    pub(crate) name: String,
    /// Counted up to a million.
    pub(crate) rows: i64,
}

impl OwnTable {
    /// Whether the table contains unpublished rows.
    pub(crate) fn waits(&self) -> bool {
        let to_publish =
            self.name.starts_with("outbox") || self.name.starts_with("scheduled_notices");
        to_publish && self.rows > 0
    }
}

impl fmt::Display for OwnTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.rows == MOST_ROWS { " or more" } else { "" };
        write!(f, "{}  WITH {}{more}", self.name, counted(self.rows.unsigned_abs(), "row"))
    }
}

/// Contents of the first schema of a search path, and the topologies that use them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnTables {
    pub(crate) schema: String,
    /// Tables that can be dropped.
    pub(crate) tables: Vec<OwnTable>,
    /// Tables with the name of one of ours and other columns.
    pub(crate) foreign: Vec<String>,
    /// Other topologies whose timeouts are registered for `schedule()`.
    pub(crate) other_topologies: Vec<String>,
}

impl OwnTables {
    fn names(&self) -> String {
        self.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// A copy with all tables empty.
    fn emptied(&self) -> Self {
        let mut emptied = self.clone();
        emptied.tables.iter_mut().for_each(|table| table.rows = 0);
        emptied
    }

    /// Tables that have changed since `then`, as text.
    fn since(&self, then: &Self) -> String {
        let new = self.tables.iter().filter(|table| !then.tables.contains(table));
        let new = new.map(|table| table.to_string().replace("  WITH ", " with "));
        new.collect::<Vec<_>>().join(", ")
    }
}

/// A timeout, and the rows of the reference tables that it closes.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledState<'a> {
    /// The name in the topology.
    pub(crate) timeout: &'a str,
    /// Value of `orders.status`.
    pub(crate) status: &'static str,
    /// The column with the deadline.
    pub(crate) deadline: &'static str,
}

impl ScheduledState<'_> {
    /// Whether a trigger of `--trigger` belongs to this state.
    pub(crate) fn is_scheduled_by(&self, trigger: &str) -> bool {
        let state = trigger.strip_prefix("schedule_new_");
        state.or(trigger.strip_prefix("schedule_changed_")) == Some(self.status)
    }
}

impl Store {
    /// Creates missing tables and functions, in one transaction.
    ///
    /// # Errors
    /// A statement failed, a schema name is invalid, another table has the name of one of these, or a newer `overdue` has created
    /// them. Nothing was changed.
    pub async fn init(&self, search_path: &str, reference_tables: bool) -> Result<(), StoreError> {
        let (ours, orders) = schemas(search_path)?;
        // Two concurrent runs would both create the same schema, so the second one waits. Another schema of the database waits for
        // nothing. The order of the locks is the order of the names, so that two runs never wait for each other.
        let mut script = String::new();
        for schema in BTreeSet::from([ours, orders]) {
            script.extend([
                "SELECT pg_advisory_xact_lock(hashtextextended('overdue database init ",
                schema,
                "', 0::bigint));\n",
            ]);
        }
        script.push_str(&in_schema(ours, &VERSIONED.replace("{version}", &VERSION.to_string())));
        script.push_str(&in_schema(ours, &refuse_foreign()));
        script.push_str(&in_schema(ours, OURS));
        script.push_str(&in_schema(ours, SCHEDULE));
        script.push_str(&in_schema(ours, PAUSES));
        if reference_tables {
            script.push_str(&in_schema(orders, REFERENCE));
        }
        self.run_script("database_init", &script).await
    }

    /// Creates the triggers that schedule each order of the reference tables, in one transaction.
    pub(crate) async fn schedule_by_triggers(
        &self,
        states: &[ScheduledState<'_>],
    ) -> Result<(), StoreError> {
        let made = include_str!("../../sql/schedule_triggers.sql");
        let mut script = self.in_own_schema(made).into_owned();
        for ScheduledState { timeout, status, deadline } in states {
            // A timeout's name is a word, so it needs no quotes.
            script.extend([
                "SELECT pg_temp.schedule_state('",
                [*timeout, status, deadline].join("', '").as_str(),
                "');\n",
            ]);
        }
        script.push_str("DROP FUNCTION pg_temp.schedule_state;\n");
        self.run_script("schedule_triggers", &script).await
    }

    /// Our existing tables, and the other topologies that use them.
    pub(crate) async fn own_tables(
        &self,
        search_path: &str,
        topology: &str,
    ) -> Result<OwnTables, StoreError> {
        let (schema, _) = schemas(search_path)?;
        let mut client = self.client().await?;
        let transaction = self.named("own_tables", client.transaction().await)?;
        let path = format!("SET LOCAL search_path TO {schema}");
        self.named("own_tables", transaction.batch_execute(&path).await)?;
        self.read_own(&transaction, schema, topology).await
    }

    /// Drops our tables and functions, in one transaction: locks the tables, counts again, and drops them if they have as many rows
    /// as were shown, or none. Nothing is dropped if the counts differ or a lock is not free within 5 s. The same is true if an
    /// object depends on the tables, for example a trigger on the user's tables.
    pub(crate) async fn drop_own(
        &self,
        search_path: &str,
        topology: &str,
        shown: &OwnTables,
    ) -> Result<(), StoreError> {
        const NAME: &str = "drop_own";
        const SQL: &str = include_str!("../../sql/drop_own.sql");
        let (schema, _) = schemas(search_path)?;
        let names = shown.names();
        let mut client = self.client().await?;
        let transaction = self.named(NAME, client.transaction().await)?;
        let lock = format!(
            "SET LOCAL search_path TO {schema}; SET LOCAL lock_timeout = {LOCK_TIMEOUT_MS};\n\
             LOCK TABLE {names} IN ACCESS EXCLUSIVE MODE"
        );
        self.named(NAME, transaction.batch_execute(&lock).await)?;
        let now = self.read_own(&transaction, schema, topology).await?;
        if now != *shown && now != shown.emptied() {
            let (address, now) = (self.address.to_string(), now.since(shown));
            return Err(StoreError::RowsChanged { address, now });
        }
        let drop = format!("{SQL}\nDROP TABLE {names}");
        self.named(NAME, transaction.batch_execute(&drop).await)?;
        self.named(NAME, transaction.commit().await)
    }

    /// Needs a search path with this schema alone.
    async fn read_own(
        &self,
        transaction: &Transaction<'_>,
        schema: &str,
        topology: &str,
    ) -> Result<OwnTables, StoreError> {
        const NAME: &str = "own_tables";
        const SQL: &str = include_str!("../../sql/own_tables.sql");
        let mut found = OwnTables { schema: schema.to_owned(), ..OwnTables::default() };
        let made = own_columns();
        let texts = |of: fn(&OwnColumn) -> &'static str| made.iter().map(of).collect::<Vec<_>>();
        let (tables, columns, types) =
            (texts(|it| it.table), texts(|it| it.name), texts(|it| it.data_type));
        let later: Vec<bool> = made.iter().map(|it| it.is_later).collect();
        let rows = transaction.query(SQL, &[&schema, &tables, &columns, &types, &later]).await;
        for row in self.named(NAME, rows)? {
            let name: String = row.get("name");
            if !row.get::<_, bool>("is_own") {
                found.foreign.push(name);
                continue;
            }
            // The name needs no quotes.
            let count = format!(
                "SELECT count(*) AS rows FROM (SELECT FROM {name} LIMIT {MOST_ROWS}) AS counted"
            );
            let counted = self.named("count_rows", transaction.query_one(&count, &[]).await)?;
            if name == "schedule_timeouts" {
                let rows =
                    self.named(NAME, transaction.query(&*self.in_own_schema(KNOWN), &[]).await)?;
                let topologies = rows.iter().map(|row| row.get::<_, String>("topology"));
                found
                    .other_topologies
                    .extend(topologies.filter(|it| it != topology && !it.is_empty()));
                found.other_topologies.dedup();
            }
            found.tables.push(OwnTable { name, rows: counted.get("rows") });
        }
        Ok(found)
    }
}

/// Refuses other tables with these names: CREATE would keep such a table, and the worker would find other columns.
fn refuse_foreign() -> String {
    let made = own_columns().into_iter().filter(|it| !it.is_later);
    let columns = made.map(|OwnColumn { table, name, .. }| format!("('{table}', '{name}')"));
    FOREIGN.replace("{columns}", &columns.collect::<Vec<_>>().join(", "))
}

/// A script that runs with `schema` as its search path. It checks first whether the schema exists: CREATE SCHEMA needs a right on
/// the database even if there is nothing to create.
fn in_schema(schema: &str, script: &str) -> String {
    format!(
        "DO $$ BEGIN IF to_regnamespace('{schema}'::text) IS NULL THEN CREATE SCHEMA {schema}; END IF; END $$;\n\
         SET LOCAL search_path TO {schema};\n{}\n",
        in_own_schema(schema, script)
    )
}

/// Replaces `{own}` in a script or a statement by `schema`.
pub(super) fn in_own_schema<'a>(schema: &str, sql: &'a str) -> Cow<'a, str> {
    const OWN: &str = "{own}.";
    if sql.contains(OWN) { sql.replace(OWN, &format!("{schema}.")).into() } else { sql.into() }
}

/// Objects that [`Store::init`] creates if they are missing, as text.
pub(crate) fn created(search_path: &str, reference_tables: bool) -> Result<String, StoreError> {
    let (ours, orders) = schemas(search_path)?;
    let own = format!("in schema {ours}: the tables {}, and schedule()", own_tables().join(", "));
    if !reference_tables {
        return Ok(own);
    }
    Ok(format!("{own}\nin schema {orders}: the tables {}", tables(&[REFERENCE]).join(", ")))
}

/// Names of our tables that [`Store::init`] creates.
pub(super) fn own_tables() -> Vec<&'static str> {
    tables(&[OURS, SCHEDULE, PAUSES])
}

fn tables(scripts: &[&'static str]) -> Vec<&'static str> {
    let lines = scripts.iter().flat_map(|script| script.lines());
    let names = lines.filter_map(|it| it.strip_prefix(CREATE));
    names.map(|name| name.trim_end_matches(" (")).collect()
}

/// A column of one of our tables.
pub(super) struct OwnColumn {
    pub(super) table: &'static str,
    pub(super) name: &'static str,
    pub(super) data_type: &'static str,
    /// Whether a version after the first one added the column.
    pub(super) is_later: bool,
}

/// Each column of [`own_tables`]; tables are recognised by their columns.
pub(super) fn own_columns() -> Vec<OwnColumn> {
    let (mut columns, mut table) = (Vec::new(), None);
    for line in [OURS, SCHEDULE, PAUSES].iter().flat_map(|script| script.lines()) {
        if let Some(name) = line.strip_prefix(CREATE).or_else(|| line.strip_prefix(ALTER)) {
            table = Some(name.trim_end_matches(" ("));
        } else if !line.starts_with(' ') {
            table = None;
        } else if let Some(table) = table {
            let added = line.trim_start().strip_prefix(ADD);
            if let [name, data_type, ..] =
                added.unwrap_or(line).split_whitespace().collect::<Vec<_>>()[..]
                && name.starts_with(|c: char| c.is_ascii_lowercase())
            {
                let data_type = data_type.trim_end_matches([',', ';']);
                columns.push(OwnColumn { table, name, data_type, is_later: added.is_some() });
            }
        }
    }
    columns
}

/// The first schema of a search path, for our tables.
pub(super) fn own_schema(search_path: &str) -> Result<&str, StoreError> {
    let first = search_path.split(',').next().unwrap_or_default().trim();
    check_name(first).map(|()| first)
}

/// The first schema of a search path, for our tables, and the last, for the order tables.
pub(super) fn schemas(search_path: &str) -> Result<(&str, &str), StoreError> {
    let schemas = || search_path.split(',').map(str::trim);
    schemas().try_for_each(check_name)?;
    Ok((schemas().next().unwrap_or_default(), schemas().next_back().unwrap_or_default()))
}

/// Accepts only names that need no quotes: they are written into statements and connection options.
fn check_name(schema: &str) -> Result<(), StoreError> {
    let first = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let rest = schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first && rest && schema.len() <= 63 {
        return Ok(());
    }
    Err(StoreError::SearchPath(schema.to_owned()))
}
