//! Dropping what `overdue database init` has made for the worker. The reference order tables are the user's.

use std::fmt;

use deadpool_postgres::Transaction;

use super::{
    LOCK_TIMEOUT_MS, Store, StoreError,
    init::{own_columns, schemas},
    schedule::KNOWN,
};
use crate::text::counted;

/// Rows are counted up to here: a history may have millions.
const MOST_COUNTED: i64 = 1_000_000;

/// A table of ours.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct OwnTable {
    /// Its name, without the schema.
    pub(crate) name: String,
    /// Its rows, up to a million.
    pub(crate) rows: i64,
}

impl OwnTable {
    /// Whether it holds what is still to be published.
    pub(crate) fn waits(&self) -> bool {
        let to_publish =
            self.name.starts_with("outbox") || self.name.starts_with("scheduled_notices");
        to_publish && self.rows > 0
    }
}

impl fmt::Display for OwnTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.rows == MOST_COUNTED { " or more" } else { "" };
        write!(f, "{}  WITH {}{more}", self.name, counted(self.rows.unsigned_abs(), "row"))
    }
}

/// What the first schema of a search path holds, and for whom.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct OwnTables {
    pub(crate) schema: String,
    /// What can be dropped.
    pub(crate) tables: Vec<OwnTable>,
    /// What has the name of a table of ours and other columns.
    pub(crate) foreign: Vec<String>,
    /// Other topologies whose timeouts `schedule()` takes.
    pub(crate) other_topologies: Vec<String>,
}

impl OwnTables {
    fn names(&self) -> String {
        self.tables.iter().map(|table| table.name.as_str()).collect::<Vec<_>>().join(", ")
    }

    /// The same without rows.
    fn emptied(&self) -> Self {
        let mut emptied = self.clone();
        emptied.tables.iter_mut().for_each(|table| table.rows = 0);
        emptied
    }

    /// What is there now and was not there then.
    fn since(&self, then: &Self) -> String {
        let new = self.tables.iter().filter(|table| !then.tables.contains(table));
        let new = new.map(|table| table.to_string().replace("  WITH ", " with "));
        new.collect::<Vec<_>>().join(", ")
    }
}

impl Store {
    /// Our tables that are there, and whether another topology than this one uses them.
    ///
    /// # Errors
    /// A statement failed, or a schema's name cannot be one.
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

    /// Drops our tables and functions, in one transaction: locks the tables, counts again, and drops them if they have as many
    /// rows as were shown, or none.
    ///
    /// # Errors
    /// As for [`Store::own_tables`]; there are other rows; a lock is not available within 5 s; something depends on them, for
    /// example a trigger on the user's tables. Nothing is dropped then.
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

    /// With the schema alone in the search path.
    async fn read_own(
        &self,
        transaction: &Transaction<'_>,
        schema: &str,
        topology: &str,
    ) -> Result<OwnTables, StoreError> {
        const NAME: &str = "own_tables";
        const SQL: &str = include_str!("../../sql/own_tables.sql");
        let mut found = OwnTables { schema: schema.to_owned(), ..OwnTables::default() };
        let [tables, columns, types] = own_columns();
        let rows = transaction.query(SQL, &[&schema, &tables, &columns, &types]).await;
        for row in self.named(NAME, rows)? {
            let name: String = row.get("name");
            if !row.get::<_, bool>("is_own") {
                found.foreign.push(name);
                continue;
            }
            // A name that needs no quoting.
            let count = format!(
                "SELECT count(*) AS rows FROM (SELECT FROM {name} LIMIT {MOST_COUNTED}) AS counted"
            );
            let counted = self.named("count_rows", transaction.query_one(&count, &[]).await)?;
            if name == "schedule_timeouts" {
                let rows = self.named(NAME, transaction.query(KNOWN, &[]).await)?;
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
