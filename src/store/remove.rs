//! Dropping what `overdue database init` has made for the worker. The reference order tables are the user's.

use std::fmt;

use super::{
    Store, StoreError,
    init::{own_tables, schemas},
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
        to_publish && self.name != "outbox_retries" && self.rows > 0
    }
}

impl fmt::Display for OwnTable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let more = if self.rows == MOST_COUNTED { " or more" } else { "" };
        write!(f, "{}  WITH {}{more}", self.name, counted(self.rows.unsigned_abs(), "row"))
    }
}

impl Store {
    /// Our tables that are there, in the first schema of the search path.
    ///
    /// # Errors
    /// A statement failed, or a schema's name cannot be one.
    pub(crate) async fn own_tables(&self, search_path: &str) -> Result<Vec<OwnTable>, StoreError> {
        const SQL: &str = include_str!("../../sql/own_tables.sql");
        let (schema, _) = schemas(search_path)?;
        let client = self.client().await?;
        let mut found = Vec::new();
        for row in self.rows("own_tables", SQL, &[&schema, &own_tables()]).await? {
            let name: String = row.get("name");
            // Both are names that need no quoting.
            let count = format!(
                "SELECT count(*) AS rows FROM (SELECT FROM {schema}.{name} LIMIT {MOST_COUNTED}) AS counted"
            );
            let counted = self.named("count_rows", client.query_one(&count, &[]).await)?;
            found.push(OwnTable { name, rows: counted.get("rows") });
        }
        Ok(found)
    }

    /// Drops our tables and functions, in one transaction.
    ///
    /// # Errors
    /// As for [`Store::own_tables`]; what depends on them, for example a trigger on the user's tables, is not dropped: then
    /// nothing is.
    pub(crate) async fn drop_own(&self, search_path: &str) -> Result<(), StoreError> {
        const SQL: &str = include_str!("../../sql/drop_own.sql");
        let (schema, _) = schemas(search_path)?;
        let tables = own_tables().join(", ");
        let script =
            format!("SET LOCAL search_path TO {schema};\n{SQL}\nDROP TABLE IF EXISTS {tables};");
        self.run_script("drop_own", &script).await
    }
}
