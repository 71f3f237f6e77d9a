//! Creating the tables: ours in the first schema of the search path, the reference order tables in the last.

use super::{Store, StoreError};

const OURS: &str = include_str!("../../sql/worker_tables.sql");
const SCHEDULE: &str = include_str!("../../sql/schedule.sql");
const FOREIGN: &str = include_str!("../../sql/foreign_tables.sql");
const REFERENCE: &str = include_str!("../../sql/schema.sql");
/// How the creation of a table begins in these scripts; each of its columns has a line.
const CREATE: &str = "CREATE TABLE IF NOT EXISTS ";

impl Store {
    /// Creates what is missing, in one transaction.
    ///
    /// # Errors
    /// A statement failed, a schema's name cannot be one, or a table of somebody else has the name of one of ours; nothing was
    /// created.
    pub async fn init(&self, search_path: &str, reference_tables: bool) -> Result<(), StoreError> {
        let (ours, orders) = schemas(search_path)?;
        // Two that start at once would both create the schema: the second waits.
        let mut script =
            "SELECT pg_advisory_xact_lock(hashtextextended('overdue database init', 0::bigint));\n"
                .to_owned();
        script.push_str(&in_schema(ours, &refuse_foreign()));
        script.push_str(&in_schema(ours, OURS));
        script.push_str(&in_schema(ours, SCHEDULE));
        if reference_tables {
            script.push_str(&in_schema(orders, REFERENCE));
        }
        self.run_script("database_init", &script).await
    }
}

/// A timeout, and the state of the reference tables that it is for.
#[derive(Clone, Debug)]
pub(crate) struct ScheduledState<'a> {
    /// Of the topology.
    pub(crate) timeout: &'a str,
    /// `orders.status`
    pub(crate) status: &'static str,
    /// The column with its deadline.
    pub(crate) deadline: &'static str,
}

impl Store {
    /// Makes the triggers that schedule each order of the reference tables, in one transaction.
    ///
    /// # Errors
    /// The tables are missing, or are not the reference tables.
    pub(crate) async fn schedule_by_triggers(
        &self,
        states: &[ScheduledState<'_>],
    ) -> Result<(), StoreError> {
        let mut script = include_str!("../../sql/schedule_triggers.sql").to_owned();
        for ScheduledState { timeout, status, deadline } in states {
            // A timeout is a word, so it needs no quoting.
            script.extend([
                "SELECT pg_temp.schedule_state('",
                [*timeout, status, deadline].join("', '").as_str(),
                "');\n",
            ]);
        }
        script.push_str("DROP FUNCTION pg_temp.schedule_state;\n");
        self.run_script("schedule_triggers", &script).await
    }
}

/// A table that is there already would be left as it is, but for its comment, and the worker would find other columns.
fn refuse_foreign() -> String {
    let [tables, columns, _] = own_columns();
    let columns =
        tables.iter().zip(columns).map(|(table, column)| format!("('{table}', '{column}')"));
    FOREIGN.replace("{columns}", &columns.collect::<Vec<_>>().join(", "))
}

/// A script with `schema` in front of the search path while it runs. Looked up first: CREATE SCHEMA needs a right on the database
/// even where there is nothing to do.
fn in_schema(schema: &str, script: &str) -> String {
    format!(
        "DO $$ BEGIN IF to_regnamespace('{schema}'::text) IS NULL THEN CREATE SCHEMA {schema}; END IF; END $$;\n\
         SET LOCAL search_path TO {schema};\n{script}\n"
    )
}

/// What [`Store::init`] creates where it is missing, as text.
///
/// # Errors
/// A schema's name cannot be one.
pub(crate) fn created(search_path: &str, reference_tables: bool) -> Result<String, StoreError> {
    let (ours, orders) = schemas(search_path)?;
    let own = format!("in schema {ours}: the tables {}, and schedule()", own_tables().join(", "));
    if !reference_tables {
        return Ok(own);
    }
    Ok(format!("{own}\nin schema {orders}: the tables {}", tables(&[REFERENCE]).join(", ")))
}

/// The tables of ours that [`Store::init`] creates.
pub(super) fn own_tables() -> Vec<&'static str> {
    tables(&[OURS, SCHEDULE])
}

fn tables(scripts: &[&'static str]) -> Vec<&'static str> {
    let lines = scripts.iter().flat_map(|script| script.lines());
    let names = lines.filter_map(|it| it.strip_prefix(CREATE));
    names.map(|name| name.trim_end_matches(" (")).collect()
}

/// Table, name and type of each column of [`own_tables`], by which they are recognised.
pub(super) fn own_columns() -> [Vec<&'static str>; 3] {
    let [mut tables, mut columns, mut types] = [const { Vec::new() }; 3];
    let mut table = None;
    for line in [OURS, SCHEDULE].iter().flat_map(|script| script.lines()) {
        if let Some(name) = line.strip_prefix(CREATE) {
            table = Some(name.trim_end_matches(" ("));
        } else if line.starts_with(')') {
            table = None;
        } else if let Some(table) = table
            && let [column, data_type, ..] = line.split_whitespace().collect::<Vec<_>>()[..]
            && column.starts_with(|c: char| c.is_ascii_lowercase())
        {
            tables.push(table);
            columns.push(column);
            types.push(data_type.trim_end_matches(','));
        }
    }
    [tables, columns, types]
}

/// The first schema of a search path, which is for our tables, and the last, which is for the order tables.
pub(super) fn schemas(search_path: &str) -> Result<(&str, &str), StoreError> {
    let schemas = || search_path.split(',').map(str::trim);
    schemas().try_for_each(check_name)?;
    Ok((schemas().next().unwrap_or_default(), schemas().next_back().unwrap_or_default()))
}

/// Only names that need no quoting: they are written into statements and connection options.
fn check_name(schema: &str) -> Result<(), StoreError> {
    let first = schema.starts_with(|c: char| c.is_ascii_lowercase() || c == '_');
    let rest = schema.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_');
    if first && rest && schema.len() <= 63 {
        return Ok(());
    }
    Err(StoreError::SearchPath(schema.to_owned()))
}
